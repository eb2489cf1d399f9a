import { describe, expect, it } from "vitest";

import { UPSTREAM_FAULTS } from "../../../src/types.ts";
import { slowDownAfter, slowDownIn } from "../../../src/upstream/verdict.ts";

const NOW = Date.UTC(2026, 0, 15, 12);

describe("what an answer says of how much the upstream can take", () => {
  it.each<[number, string | undefined, ReturnType<typeof slowDownIn>]>([
    [429, undefined, { cause: "too-many-requests", forMs: undefined }],
    [429, "7", { cause: "too-many-requests", forMs: 7_000 }],
    [429, "0", { cause: "too-many-requests", forMs: 0 }],
    [429, "soon", { cause: "too-many-requests", forMs: undefined }],
    [429, "Thu, 15 Jan 2026 12:00:30 GMT", { cause: "too-many-requests", forMs: 30_000 }],
    [503, "7", { cause: "unavailable", forMs: 7_000 }],
    [503, "0", { cause: "unavailable", forMs: 0 }],
    [503, "Thu, 15 Jan 2026 12:01:00 GMT", { cause: "unavailable", forMs: 60_000 }],
    [503, undefined, undefined],
    [503, "soon", undefined],
    [500, "7", undefined],
    [502, "7", undefined],
    [404, "7", undefined],
    [200, "7", undefined],
  ])("%i with Retry-After %s: %o", (status, retryAfter, expected) => {
    const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter };
    expect(slowDownIn({ status, headers }, NOW)).toEqual(expected);
  });
});

describe("what a failure says of it", () => {
  it.each(
    UPSTREAM_FAULTS.map(
      (fault) => [fault, ["unreachable", "connect-timeout", "header-timeout"].includes(fault)] as const,
    ),
  )("%s, no sign of life: %s", (fault, isUnreachable) => {
    const expected = isUnreachable ? { cause: "unreachable", forMs: undefined } : undefined;
    expect(slowDownAfter(fault)).toEqual(expected);
  });
});
