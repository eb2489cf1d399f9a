import { describe, expect, it } from "vitest";

import { createMemoryLedger } from "../../src/usage/memory-ledger.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { ledgerEntry, linesOf } from "../support/ledger.ts";
import { ownLedgerContract } from "./ledger-contract.ts";

ownLedgerContract("memory", async (bounds) => ({
  ledger: createMemoryLedger(bounds),
  close: async () => undefined,
}));

describe("memory", () => {
  it("never holds more lines than its maximum", async () => {
    const clock = createFakeClock(10);
    const ledger = createMemoryLedger({ retentionMs: 1_000, maxRecords: 3, now: clock.now });
    for (let at = 10; at < 20; at++) {
      clock.set(at);
      ledger.enter(ledgerEntry({ id: String(at), at }));
      expect((await linesOf(ledger)).length).toBeLessThanOrEqual(3);
    }
    expect((await linesOf(ledger)).map(({ at }) => at)).toEqual([17, 18, 19]);
    expect(await ledger.completeSince()).toBe(17);
  });
});
