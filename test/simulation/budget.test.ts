/**
 * Replicas that share a budget, in virtual time, while messages get lost, servers restart with or without
 * their memory, and replicas die. `HISTORIES` says how many histories are played, from number `FIRST` on;
 * `SEED` plays that one alone, and shows what happened in it.
 *
 * Not tried, as the budget does not hold in them: a replica that starts while the shared budget is out of
 * reach; a server that loses its memory after everybody who could tell it has died; a replica that dies with
 * what it sent while it was cut off untold, and is replaced before that has left the windows.
 */
import { describe, expect, it } from "vitest";

import { playHistory } from "./history.ts";

const { HISTORIES, FIRST, SEED } = process.env;
const first = Number(SEED ?? FIRST ?? 1);
const histories = SEED === undefined ? Number(HISTORIES ?? 60) : 1;

describe("replicas that share a budget", () => {
  it(
    "never send more than was agreed, use what there is, and let nobody wait in vain",
    { timeout: 60_000 + histories * 2_000 },
    async () => {
      const failed: string[] = [];
      for (let seed = first; seed < first + histories; seed++) {
        const { plan, problems, log } = await playHistory(seed);
        if (SEED !== undefined) process.stdout.write(`${log.join("\n")}\n`);
        if (problems.length === 0) continue;
        const windows = plan.terms.windows
          .map(({ limit, windowMs }) => `${limit} in ${windowMs} ms`)
          .join(", ");
        failed.push(
          `SEED=${seed}: ${problems.join("; ")} (${plan.replicas} replicas, ${windows}, ${plan.faults.join(" ")})`,
        );
      }
      expect(failed).toEqual([]);
    },
  );
});
