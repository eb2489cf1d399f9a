/** Stores the results of runs, and writes them into docs/internals/performance.md. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";

import { markdownOf, type Table, tables } from "./table.ts";

const DOCUMENT = new URL("../docs/internals/performance.md", import.meta.url);
const RESULTS = new URL("../docs/internals/performance/results.json", import.meta.url);

/** Tables by title, each with when and where it was measured. */
type Results = Record<string, Table & { readonly measured: string }>;

/** Replaces earlier tables by those of this run. Tables that were not measured stay. */
export function writeReport(): void {
  const results = resultsSoFar();
  for (const table of tables) results[table.title] = { ...table, measured: whenAndWhere() };
  mkdirSync(new URL(".", RESULTS), { recursive: true });
  writeFileSync(RESULTS, `${JSON.stringify(results, undefined, 2)}\n`);
  writeFileSync(DOCUMENT, filledIn(readFileSync(DOCUMENT, "utf8"), results));
}

function resultsSoFar(): Results {
  try {
    const results: Results = JSON.parse(readFileSync(RESULTS, "utf8"));
    return results;
  } catch {
    return {};
  }
}

/** @param document has a block for each table that it shows. Tables that were measured alike follow one note about it. */
function filledIn(document: string, results: Results): string {
  let noted = "";
  return document.replaceAll(
    /(<!-- bench: (.+) -->\n)[^]*?(<!-- \/bench -->)/g,
    (block, begin: string, title: string, end: string) => {
      const table = results[title];
      if (table === undefined) return block;
      const note = table.measured === noted ? "" : `_Measured ${table.measured}:_\n\n`;
      noted = table.measured;
      return `${begin}\n${note}${markdownOf(table)}\n\n${end}`;
    },
  );
}

function whenAndWhere(): string {
  const all = cpus();
  const model = all[0]?.model.trim() ?? "unknown processor";
  const day = new Date().toISOString().slice(0, 10);
  // Then the machine is busy with other work, and waiting times mean little.
  const [load = 0] = loadavg();
  const busy = load > all.length ? `, load ${load.toFixed(0)}` : "";
  return `${day}: Node ${process.version}, ${process.platform}, ${model}, ${all.length} cores${busy}`;
}
