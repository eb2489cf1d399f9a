import { describe, expect, it } from "vitest";

import { mayBeTakenNow } from "../../../src/upstream/sign.ts";
import { createWatcher } from "./support.ts";

const NOW = Date.UTC(2026, 0, 15, 12);

function refused(status: number, date?: string): ReturnType<typeof createWatcher>["errors"] {
  const observer = createWatcher();
  const credentials = {
    currentNumber: () => 1,
    refused: () => false,
    accepted: () => undefined,
    checkAgain: () => undefined,
  };
  const refusal = { status, date, signedWith: 1, explanation: () => "FAILURE_HASH - wrong" };
  expect(mayBeTakenNow(refusal, { credentials, observer }, NOW)).toBe(false);
  return observer.errors;
}

describe("refused credentials", () => {
  it.each([
    ["Thu, 15 Jan 2026 12:05:00 GMT", 300],
    ["Thu, 15 Jan 2026 11:59:00 GMT", -60],
    ["yesterday", "unknown"],
    [undefined, "unknown"],
  ])("are reported with the skew of the clocks: the upstream's Date is %s", (date, clockSkewSeconds) => {
    expect(refused(403, date)).toEqual([
      {
        message: expect.stringMatching(/PRIVATE_KEY.*CALLER_ID.*clock/),
        fields: { status: 403, clockSkewSeconds, explanation: "FAILURE_HASH - wrong" },
      },
    ]);
  });

  it("are those of 401 and 403", () => {
    const statuses = [200, 400, 401, 403, 404, 405, 500, 503];
    expect(statuses.filter((status) => refused(status).length > 0)).toEqual([401, 403]);
  });
});
