/**
 * Plays histories of the shared limiter as a test. `FIRST` is the number of the first one, `SEED` plays that one alone
 * and shows what happened in it.
 *
 * Not tried, because it is conceded: Redis loses data while all replicas that knew them are dead or cut off.
 */
import { describe, expect, it } from "vitest";

import { settled } from "../../support/fake-clock.ts";
import { type Outcome, playHistory } from "./history.ts";

const { FIRST, SEED } = process.env;
/** Histories in which a limit was exceeded once. */
const REGRESSIONS = [627, 2_397, 2_449, 3_179, 8_033, 13_908];

/** @param part of so many `parts`: each file plays one, on a core of its own */
export function playPart(part: number, { parts, histories }: { parts: number; histories: number }): void {
  const first = Number(SEED ?? FIRST ?? 1);
  const numbers = Array.from({ length: SEED === undefined ? histories : 1 }, (_, index) => first + index);
  const all = SEED === undefined ? [...new Set([...REGRESSIONS, ...numbers])] : numbers;
  const seeds = all.filter((seed) => seed % parts === part);
  describe("replicas that share the limits", () => {
    it.skipIf(seeds.length === 0)(
      `never exceed them, use them, and let nobody wait for ever (${seeds.length} histories)`,
      { timeout: 60_000 + seeds.length * 2_000 },
      async () => {
        const failed: string[] = [];
        for (const seed of seeds) {
          // Nothing in a history lets anything else run: now whoever wants to stop this can.
          await settled();
          const outcome = await playHistory(seed);
          if (SEED !== undefined) process.stdout.write(`${outcome.log.join("\n")}\n`);
          if (outcome.problems.length > 0) failed.push(describeFailure(outcome));
        }
        expect(failed, "to see one of them: SEED=… npx vitest run test/simulation/limiter").toEqual([]);
      },
    );
  });
}

function describeFailure({ seed, plan, problems }: Outcome): string {
  const windows = plan.windows.map(({ limit, name }) => `${limit}/${name}`).join(", ");
  return `SEED=${seed}: ${problems.join("; ")} (${windows}; ${plan.faults.join(" ")})`;
}
