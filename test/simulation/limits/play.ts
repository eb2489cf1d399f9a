/**
 * Plays histories of the shared limiter as a test. `FIRST` is the first seed. `SEED` plays only that history and shows its
 * log.
 *
 * No history covers a loss of data while all replicas that know the data are dead or cut off. The design does not either.
 */
import { expect, it } from "vitest";

import { type Outcome, playHistory } from "./history.ts";
import { stageForFile } from "../../support/redis-stage.ts";

const { FIRST, SEED } = process.env;
/** Histories that are played at the same time: while one waits for Redis, another goes on. */
const LANES = 16;
/** Histories that once exceeded a limit, or used too little. */
const ONCE_FAILED = [464, 2_075, 20_067, 30_419, 100_340, 112_561, 200_141, 200_232, 201_870, 300_167];

/** @param part of `parts`: each file plays one part, on a core of its own */
export function playPart(part: number, { parts, histories }: { parts: number; histories: number }): void {
  const first = Number(SEED ?? FIRST ?? 1);
  const random = Array.from({ length: SEED === undefined ? histories : 1 }, (_, index) => first + index);
  const all = new Set([...random, ...(SEED === undefined ? ONCE_FAILED : [])]);
  const seeds = [...all].filter((seed) => seed % parts === part);
  const stage = stageForFile();
  it.skipIf(seeds.length === 0)(
    `replicas that share the limits never exceed them, use them, and always get an answer (${seeds.length} histories)`,
    { timeout: 60_000 + seeds.length * 10_000 },
    async () => {
      const failed: string[] = [];
      const left = seeds.values();
      await Promise.all(
        Array.from({ length: LANES }, async () => {
          for (const seed of left) {
            const outcome = await playHistory(stage(), seed);
            if (SEED !== undefined) process.stdout.write(`${outcome.log.join("\n")}\n`);
            if (outcome.problems.length > 0) failed.push(describeFailure(outcome));
          }
        }),
      );
      expect(failed, "to see one history: SEED=… npx vitest run test/simulation/limits").toEqual([]);
    },
  );
}

function describeFailure({ seed, plan, problems }: Outcome): string {
  const windows = plan.windows.map(({ limit, name }) => `${limit}/${name}`).join(", ");
  return `SEED=${seed}: ${problems.join("; ")} (${windows}; ${plan.faults.join(" ")})`;
}
