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

  it("never promise a part of a request", () => {
    expect(rateLimitHeaders([{ ...MINUTE, limit: 33.9, remaining: 0.9 }])).toEqual({
      policy: '"1m";q=33;w=60',
      limit: '"1m";r=0;t=30',
    });
  });
});
