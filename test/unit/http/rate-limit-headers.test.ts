import { describe, expect, it } from "vitest";

import { rateLimitHeaders } from "../../../src/http/rate-limit-headers.ts";
import type { ShareOfWindow } from "../../../src/ratelimit/overview.ts";

const MINUTE: ShareOfWindow = { name: "1m", limit: 60, windowSeconds: 60, remaining: 50, resetSeconds: 30 };
const DAY: ShareOfWindow = {
  name: "1d",
  limit: 10_000,
  windowSeconds: 86_400,
  remaining: 9_990,
  resetSeconds: 8_000,
};

describe("the headers of an app's share", () => {
  it("have an item for each window, in their order", () => {
    expect(rateLimitHeaders([MINUTE, DAY])).toEqual({
      policy: '"1m";q=60;w=60, "1d";q=10000;w=86400',
      limit: '"1m";r=50;t=30, "1d";r=9990;t=8000',
    });
  });

  it.each<[string, Partial<ShareOfWindow>, string, string]>([
    ["a part of a request", { limit: 33.9, remaining: 0.9 }, "q=33;w=60", "r=0;t=30"],
    ["a part of a second", { windowSeconds: 0.25, resetSeconds: 29.001 }, "q=60;w=1", "r=50;t=30"],
    ["a place that is free already", { resetSeconds: -0.5 }, "q=60;w=60", "r=50;t=0"],
    ["no end of it", { remaining: Number.POSITIVE_INFINITY }, "q=60;w=60", "r=999999999999999;t=30"],
  ])("are whole numbers that never promise too much: %s", (_name, changes, policy, limit) => {
    expect(rateLimitHeaders([{ ...MINUTE, ...changes }])).toEqual({
      policy: `"1m";${policy}`,
      limit: `"1m";${limit}`,
    });
  });

  it("are valid structured fields for any window name", () => {
    expect(rateLimitHeaders([{ ...MINUTE, name: 'a"b\\c\r\nd\u00e5' }])?.limit).toBe(
      String.raw`"a\"b\\c??d?";r=50;t=30`,
    );
  });
});
