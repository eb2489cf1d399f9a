import { describe, expect, it } from "vitest";

import { lateRefusalOf, refusalOf } from "../../../src/ratelimit/refusal.ts";
import { problemBody } from "../../../src/errors.ts";

const REGISTERED = "https://iana.org/assignments/http-problem-types#";
const OWN = "urn:property-gateway:problem:";

const typeOf = (body: Buffer): unknown => JSON.parse(body.toString()).type;

describe("one whose turn cannot come in time", () => {
  it.each([
    ["budget", false, "budget", 503, `${REGISTERED}temporary-reduced-capacity`],
    ["budget", true, "share", 429, `${REGISTERED}quota-exceeded`],
    ["share", true, "share", 429, `${REGISTERED}quota-exceeded`],
    ["share", false, "share", 429, `${REGISTERED}quota-exceeded`],
    ["per-day", false, "per-day", 429, `${REGISTERED}quota-exceeded`],
    ["per-day", true, "per-day", 429, `${REGISTERED}quota-exceeded`],
    ["cool-off", false, "cool-off", 503, `${OWN}upstream-unavailable`],
    ["cool-off", true, "cool-off", 503, `${OWN}upstream-unavailable`],
  ] as const)(
    "because of %s, over its share: %s, is refused for %s with %i",
    (why, isOverShare, reason, status, type) => {
      const refusal = refusalOf({ forMs: 5_000, why, isOverShare }, "web");
      expect(refusal.reason).toBe(reason);
      expect(refusal.problem.status).toBe(status);
      expect(typeOf(problemBody(refusal.problem))).toBe(type);
      expect(refusal.problem.details).toMatchObject({ retryAfterSeconds: 5, refusedHere: true });
      // One app's share is no concern of those of other apps who joined its flight.
      expect(refusal.problem.details.ofApp).toBe(status === 429 ? "web" : undefined);
    },
  );

  it.each([
    ["a second at least", 0, 1],
    ["a second at least, whatever is left of it", 1, 1],
    ["no less than it takes", 1_002, 2],
    ["just what it takes", 60_000, 60],
    ["a day at most", 200_000_000, 86_400],
    ["a day where it never comes", Number.POSITIVE_INFINITY, 86_400],
  ])("is told to come back after %s", (_name, forMs, seconds) => {
    const { problem } = refusalOf({ forMs, why: "budget", isOverShare: false }, "web");
    expect(problem.details.retryAfterSeconds).toBe(seconds);
  });

  it("is told that it is its limit for a day, where it is", () => {
    const [perDay, share] = (["per-day", "share"] as const).map(
      (why) => refusalOf({ forMs: 1, why, isOverShare: false }, "web").problem.details.detail,
    );
    expect(perDay).toContain("24 hours");
    expect(share).toBeUndefined();
  });
});

describe("one whose turn has not come by its deadline", () => {
  it.each(["budget", "share", "per-day", "cool-off"] as const)("because of %s, is told as at once", (why) => {
    const expectation = { forMs: 5_000, why, isOverShare: false };
    const [late, atOnce] = [lateRefusalOf(expectation, "web"), refusalOf(expectation, "web").problem];
    expect(problemBody(late)).toEqual(problemBody(atOnce));
    expect(late.details).toEqual({ ...atOnce.details, late: true });
  });

  it("although nothing of the budget keeps it, is told so, and is no app's affair", () => {
    const { code, details } = lateRefusalOf({ forMs: 0, why: "budget", isOverShare: true }, "web");
    expect(code).toBe("temporary-reduced-capacity");
    expect(details).toMatchObject({ retryAfterSeconds: 1, refusedHere: true, late: true });
    expect([details.ofApp, details.detail]).toEqual([undefined, expect.stringContaining("nothing was sent")]);
  });
});
