/**
 * `npm run soak -- --minutes 60 --seed 1` prints its figures as JSON. Exit code 1 if anything was wrong, over the budget, or
 * hung. Ctrl-C ends it early, with the figures so far.
 */
import { parseArgs } from "node:util";

import { findLeftovers, prepareRun } from "../support/leftovers.ts";
import { soak } from "./soak.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: String(Math.floor(Date.now() / 1_000) % 1_000_000) },
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
const report = await soak(minutes, seed, interrupted.signal);
console.log(JSON.stringify(report, undefined, 2));
const leftovers = await findLeftovers(run);
for (const leftover of leftovers) console.error(`left behind: ${leftover}`);
process.exit(report.isClean && leftovers.length === 0 ? 0 : 1);
