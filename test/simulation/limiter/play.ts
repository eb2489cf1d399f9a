/**
 * Plays histories of the shared limiter as a test. `FIRST` is the first seed. `SEED` plays only that history and shows its
 * log.
 *
 * No history covers a loss of data while all replicas that know the data are dead or cut off. The design does not either.
 */
import { describe, expect, it } from "vitest";

import { settled } from "../../support/fake-clock.ts";
import { type Outcome, playHistory } from "./history.ts";

const { FIRST, SEED } = process.env;
/** Histories in which earlier versions exceeded a limit, or that earlier tests reported as using too little. */
const REGRESSIONS = [627, 2_397, 2_449, 3_179, 8_033, 12_795, 13_908, 15_665];

/** @param part of `parts`: each file plays one part, on a core of its own */
export function playPart(part: number, { parts, histories }: { parts: number; histories: number }): void {
  const first = Number(SEED ?? FIRST ?? 1);
  const numbers = Array.from({ length: SEED === undefined ? histories : 1 }, (_, index) => first + index);
  const all = SEED === undefined ? [...new Set([...REGRESSIONS, ...numbers])] : numbers;
  const seeds = all.filter((seed) => seed % parts === part);
  describe("replicas that share the limits", () => {
    it.skipIf(seeds.length === 0)(
      `never exceed them, use them, and always get a reply (${seeds.length} histories)`,
      { timeout: 60_000 + seeds.length * 2_000 },
      async () => {
        const failed: string[] = [];
        for (const seed of seeds) {
          // A history never waits for anything outside. Vitest can stop the test here.
          await settled();
          const outcome = await playHistory(seed);
          if (SEED !== undefined) process.stdout.write(`${outcome.log.join("\n")}\n`);
          if (outcome.problems.length > 0) failed.push(describeFailure(outcome));
        }
        expect(failed, "to see one history: SEED=… npx vitest run test/simulation/limiter").toEqual([]);
      },
    );
  });
}

function describeFailure({ seed, plan, problems }: Outcome): string {
  const windows = plan.windows.map(({ limit, name }) => `${limit}/${name}`).join(", ");
  return `SEED=${seed}: ${problems.join("; ")} (${windows}; ${plan.faults.join(" ")})`;
}
