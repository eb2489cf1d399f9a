/**
 * `npm run soak -- --minutes 60 --seed 1`: exit code 1 if anything was wrong, over the budget, or hung. Ctrl-C ends it
 * early, with a report.
 *
 * `--json FILE` writes the report as JSON, `--logs DIR` what the gateways have written, and `--write` puts its text into docs/reliability.md.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { findLeftovers, prepareRun } from "../support/leftovers.ts";
import { reportText } from "./report.ts";
import { soak } from "./soak.ts";

const DOCUMENT = "docs/reliability.md";
const MARKED = /(<!-- soak -->\n)[^]*(<!-- \/soak -->)/;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: String(Math.floor(Date.now() / 1_000) % 1_000_000) },
    json: { type: "string" },
    logs: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const [minutes, seed] = [Number(values.minutes), Number(values.seed)];
if (!(minutes > 0) || !Number.isSafeInteger(seed)) {
  console.error("Expected --minutes with a number above zero, and --seed with an integer.");
  process.exit(1);
}
const run = prepareRun();
Object.assign(process.env, run.env);
const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort());
console.log(`soak: ${minutes} minutes, seed ${seed}`);
const report = await soak({
  minutes,
  seed,
  signal: interrupted.signal,
  ...(values.logs !== undefined && { logs: values.logs }),
  progress: (line) => console.log(line),
});
const text = reportText(report);
console.log(`\n${text}`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, undefined, 2)}\n`);
if (values.write) {
  const page = readFileSync(DOCUMENT, "utf8");
  writeFileSync(
    DOCUMENT,
    page.replace(MARKED, (_, begin: string, end: string) => `${begin}\n${text}${end}`),
  );
}
const leftovers = await findLeftovers(run);
for (const leftover of leftovers) console.error(`left behind: ${leftover}`);
process.exit(report.isClean && leftovers.length === 0 ? 0 : 1);
