/**
 * `npm run bench`: what things cost, as ratios within one run. `--short` is a quick one for CI,
 * `--hits` measures only cache hits.
 *
 * Absolute figures are this machine's at this moment; only the ratios mean anything, and a wide spread
 * between runs means that the machine was busy.
 */
import { benchHits } from "./hits.ts";
import { benchOutages } from "./outages.ts";
import { benchCalls, benchCutting } from "./pages.ts";
import { benchStores } from "./stores.ts";
import { benchUnderstanding } from "./understanding.ts";

const isShort = process.argv.includes("--short");
/** `--hits`: only the hits. */
const isHitsOnly = process.argv.includes("--hits");

await benchHits(
  isShort
    ? { roundMs: 20, rounds: 3, many: 50, distinct: 50, withPeers: false }
    : { roundMs: 100, rounds: 30, many: 1_000, distinct: 100_000, withPeers: true },
);
if (!isHitsOnly) {
  await benchUnderstanding(isShort ? 50 : 500);
  await benchStores(isShort ? 100 : 1_000);
  await benchOutages(isShort ? 5 : 50);
  await benchCutting(isShort ? 200 : 2_000);
  await benchCalls(isShort ? 2_000 : 20_000, seedIn(process.argv));
}

/** The workload's seed: `--seed=7`; 1 without. */
function seedIn(args: readonly string[]): number {
  const given = args.find((arg) => arg.startsWith("--seed="));
  return given === undefined ? 1 : Number(given.slice("--seed=".length));
}
