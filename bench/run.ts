/**
 * `npm run bench`: measures costs, as ratios within one run.
 *
 * - Without options it measures everything, and writes docs/performance.md with its charts.
 * - With the names of parts, for example `-- --hits --misses`, it measures only these parts.
 * - `--records=` sets the number of different records among the hits, and `--seed=` the workload for the upstream calls.
 * - With `-- --short` it runs everything for a moment and writes nothing. CI uses this.
 *
 * Absolute figures depend on the machine and on its load, so compare only ratios. A wide spread between runs means that
 * the machine was busy.
 */
import { benchBudget } from "./budget.ts";
import { benchCalls } from "./calls.ts";
import { benchHits } from "./hits.ts";
import { benchLeaks } from "./leaks.ts";
import { benchMisses } from "./misses.ts";
import { benchOutages } from "./outages.ts";
import { benchCutting } from "./pages.ts";
import { benchRecording } from "./recording.ts";
import { writeReport } from "./report.ts";
import { benchScale } from "./scale.ts";
import { benchStores } from "./stores.ts";
import { benchUnderstanding } from "./understanding.ts";

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

const PARTS: Readonly<Record<string, () => Promise<void> | void>> = {
  hits: () => benchHits(isShort ? SHORT_HITS : WHOLE_HITS),
  recording: () => benchRecording(isShort ? 50 : 4_000),
  misses: () => benchMisses(isShort ? 20 : 2_000),
  understanding: () => benchUnderstanding(isShort ? 50 : 500),
  stores: () => benchStores(isShort ? 100 : 1_000),
  budget: () => benchBudget(isShort ? 100 : 1_000),
  outages: () => benchOutages(isShort ? 5 : 50),
  cutting: () => benchCutting(isShort ? 200 : 2_000),
  calls: () => benchCalls(isShort ? 2_000 : 20_000, seed),
  scale: () => benchScale(isShort ? SHORT_SCALE : WHOLE_SCALE),
  leaks: () => (isShort ? Promise.resolve() : benchLeaks(1_000_000)),
};

const chosen = Object.keys(PARTS).filter((name) => given.includes(`--${name}`));
for (const name of chosen.length > 0 ? chosen : Object.keys(PARTS)) {
  await PARTS[name]?.();
  if (!isShort) writeReport();
}

function numberIn(option: string): number | undefined {
  const found = given.find((arg) => arg.startsWith(option));
  return found === undefined ? undefined : Number(found.slice(option.length));
}
