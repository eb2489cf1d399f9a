/**
 * `npm run bench`: measures costs, as ratios within one run.
 *
 * - Without options it measures everything, and writes docs/internals/performance.md.
 * - With the names of parts, for example `-- --hits --misses`, it measures only these parts.
 * - `--records=` sets the number of different records among the hits, and `--seed=` the workload for the upstream calls.
 * - With `-- --short` it runs everything for a moment and writes nothing. CI uses this.
 *
 * Absolute figures depend on the machine and on its load, so compare only ratios. A wide spread between runs means that
 * the machine was busy.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

import { writeReport } from "./report.ts";

const given = process.argv.slice(2);
const isShort = given.includes("--short");
const seed = numberIn("--seed=") ?? 1;

const SHORT_HITS = { roundMs: 20, rounds: 3, many: 50, distinct: 50, withPeers: false };
const WHOLE_HITS = {
  roundMs: 100,
  rounds: 30,
  many: 1_000,
  distinct: numberIn("--records=") ?? 100_000,
  withPeers: true,
};
const SHORT_SCALE = { entries: [1_000], connections: [10], forMs: 70 };
const WHOLE_SCALE = { entries: [1e3, 1e4, 1e5, 1e6], connections: [10, 100, 1_000, 10_000], forMs: 3_000 };

const SHORT_FRESHNESS = { lifetimes: 2, seeds: [1], isShort: true };
const WHOLE_FRESHNESS = { lifetimes: 100, seeds: [1, 2, 3] };

const PARTS: Readonly<Record<string, () => Promise<void> | void>> = {
  hits: async () => (await import("./hits.ts")).benchHits(isShort ? SHORT_HITS : WHOLE_HITS),
  misses: async () => (await import("./misses.ts")).benchMisses(isShort ? 20 : 2_000),
  cutting: async () => (await import("./pages.ts")).benchCutting(isShort ? 200 : 2_000),
  calls: async () => (await import("./calls.ts")).benchCalls(isShort ? 2_000 : 20_000, seed),
  freshness: async () =>
    (await import("./freshness.ts")).benchFreshness(isShort ? SHORT_FRESHNESS : WHOLE_FRESHNESS),
  scale: async () => (await import("./scale.ts")).benchScale(isShort ? SHORT_SCALE : WHOLE_SCALE),
  scrapes: async () =>
    (await import("./scrapes.ts")).benchScrapes(isShort ? [10] : [100, 300, 1_000, 3_000], isShort ? 1 : 9),
};

const chosen = Object.keys(PARTS).filter((name) => given.includes(`--${name}`));
const names = chosen.length > 0 ? chosen : Object.keys(PARTS);
if (names.length === 1) await runHere(names[0] ?? "");
else for (const name of names) runInOwnProcess(name);

async function runHere(name: string): Promise<void> {
  await PARTS[name]?.();
  if (!isShort) writeReport();
}

/** The data of one part would occupy the garbage collector, and with it a processor core, while another part is measured. */
function runInOwnProcess(name: string): void {
  const options = given.filter((arg) => !Object.keys(PARTS).includes(arg.slice(2)));
  const { status } = spawnSync(
    process.execPath,
    [...process.execArgv, fileURLToPath(import.meta.url), ...options, `--${name}`],
    { stdio: "inherit" },
  );
  if (status !== 0) process.exit(status ?? 1);
}

function numberIn(option: string): number | undefined {
  const found = given.find((arg) => arg.startsWith(option));
  return found === undefined ? undefined : Number(found.slice(option.length));
}
