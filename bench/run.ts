/**
 * `npm run bench`: what things cost, as ratios within one run. `--short` is a quick one for CI,
 * `--hits` measures only cache hits, `--calls` counts only upstream calls.
 *
 * Absolute figures are this machine's at this moment; only the ratios mean anything, and a wide spread
 * between runs means that the machine was busy.
 */
import { benchCalls } from "./calls.ts";
import { benchHits } from "./hits.ts";
import { benchOutages } from "./outages.ts";
import { benchCutting } from "./pages.ts";
import { benchStores } from "./stores.ts";
import { benchUnderstanding } from "./understanding.ts";

const isShort = process.argv.includes("--short");
/** `--hits`: only the hits. */
const isHitsOnly = process.argv.includes("--hits");
/** `--calls`: only the upstream calls of a workload. */
const isCallsOnly = process.argv.includes("--calls");

if (!isCallsOnly) await benchHits(isShort ? 500 : 4_000);
if (!isHitsOnly && !isCallsOnly) {
  await benchUnderstanding(isShort ? 50 : 500);
  await benchStores(isShort ? 100 : 1_000);
  await benchOutages(isShort ? 5 : 50);
  await benchCutting(isShort ? 200 : 2_000);
}
if (!isHitsOnly) await benchCalls(isShort ? 2_000 : 20_000, seedIn(process.argv));

/** The workload's seed: `--seed=7`; 1 without. */
function seedIn(args: readonly string[]): number {
  const given = args.find((arg) => arg.startsWith("--seed="));
  return given === undefined ? 1 : Number(given.slice("--seed=".length));
}
