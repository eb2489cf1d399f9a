import { describe, expect, it } from "vitest";

import { reportRefusedCredentials } from "../../../src/upstream/sign.ts";
import { createWatcher } from "./support.ts";

const NOW = Date.UTC(2026, 0, 15, 12);

describe("refused credentials", () => {
  it.each([
    ["Thu, 15 Jan 2026 12:00:00 GMT", 0],
    ["Thu, 15 Jan 2026 12:05:00 GMT", 300],
    ["Thu, 15 Jan 2026 11:59:00 GMT", -60],
    ["yesterday", "unknown"],
    [undefined, "unknown"],
  ])("are reported with the skew of the clocks: the upstream's Date is %s", (date, skew) => {
    const watcher = createWatcher();
    reportRefusedCredentials(403, date, watcher, NOW);
    expect(watcher.errors).toEqual([
      {
        message: expect.stringMatching(/privateKey.*callerId.*clock/),
        fields: { status: 403, clockSkewSeconds: skew },
      },
    ]);
  });

  it.each([
    [401, 1],
    [403, 1],
    [200, 0],
    [400, 0],
    [404, 0],
    [500, 0],
    [503, 0],
  ])("with status %i: %i reports", (status, reports) => {
    const watcher = createWatcher();
    reportRefusedCredentials(status, undefined, watcher, NOW);
    expect(watcher.errors).toHaveLength(reports);
  });
});
