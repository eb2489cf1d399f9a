import { describe, expect, it } from "vitest";

import {
  createLeadOrFollow,
  type Claim,
  type ClaimEnd,
  type Claims,
} from "../../../src/singleflight/replicas.ts";
import { Problem } from "../../../src/errors.ts";
import type { Waiting } from "../../../src/ratelimit/throttled.ts";
import { waitingOf } from "../../support/waiting.ts";

/** Claims that a test hands out one after the other. */
function claimsOf(...handed: Claim[]): Claims & { left: () => number } {
  return {
    claim: async () => handed.shift() ?? { kind: "unavailable" },
    left: () => handed.length,
  };
}

function waitingFor(abandoned = new AbortController().signal): Waiting {
  return waitingOf({ abandoned });
}

const nothing = async (): Promise<string | undefined> => undefined;

function follower(ended: Promise<ClaimEnd>): Claim {
  return { kind: "follower", ended, stop: () => undefined };
}

function leader(release: (end: ClaimEnd) => Promise<void> = async () => undefined): Claim {
  return { kind: "leader", release };
}

/** Runs a flight with these claims. Nothing is stored, unless `look` says so. */
async function run(
  claim: Claim | undefined,
  steps: { look?: () => Promise<string | undefined>; fetch?: () => Promise<string> } = {},
  abandoned?: AbortSignal,
): Promise<unknown> {
  const { look = nothing, fetch = async () => expect.unreachable() } = steps;
  const leadOrFollow = createLeadOrFollow<string>(claimsOf(...(claim ? [claim] : [])));
  return await leadOrFollow("k", waitingFor(abandoned), { look, fetch }).catch((error: unknown) => error);
}

describe("a replica that leads", () => {
  const failure = new Problem("upstream-error");
  const refusals = (["quota-exceeded", "temporary-reduced-capacity"] as const).map(
    (code) => new Problem(code),
  );
  const mistake = new TypeError("a mistake");
  const withdrawn = AbortSignal.abort();

  it.each<[string, Parameters<typeof run>[1], AbortSignal | undefined, unknown, ClaimEnd]>([
    [
      "fetches",
      { fetch: async () => "new" },
      undefined,
      { value: "new", how: "fetched" },
      { kind: "landed" },
    ],
    [
      "finds what another has just stored",
      { look: async () => "theirs" },
      undefined,
      { value: "theirs", how: "found" },
      { kind: "landed" },
    ],
    ["cannot look", { look: () => Promise.reject(mistake) }, undefined, mistake, { kind: "vacant" }],
    ...[undefined, withdrawn].map(
      (abandoned) =>
        [
          `fails ${abandoned ? "without" : "with"} waiters`,
          { fetch: () => Promise.reject(failure) },
          abandoned,
          failure,
          { kind: "failed", problem: failure },
        ] as [string, object, AbortSignal | undefined, Problem, ClaimEnd],
    ),
    ...refusals.flatMap((refusal) =>
      [undefined, withdrawn].map(
        (abandoned) =>
          [
            `is refused by its own limiter (${refusal.code}), ${abandoned ? "without" : "with"} waiters`,
            { fetch: () => Promise.reject(refusal) },
            abandoned,
            refusal,
            { kind: "vacant" },
          ] as [string, object, AbortSignal | undefined, Problem, ClaimEnd],
      ),
    ),
  ])("and %s says so to the others", async (_how, steps, abandoned, result, end) => {
    const ends: ClaimEnd[] = [];
    expect(
      await run(
        leader(async (how) => void ends.push(how)),
        steps,
        abandoned,
      ),
    ).toEqual(result);
    expect(ends).toEqual([end]);
  });
});

describe("a replica that follows", () => {
  it("gets what the leader has stored", async () => {
    const landing = Promise.withResolvers<ClaimEnd>();
    const stored: string[] = [];
    const result = run(follower(landing.promise), { look: async () => stored[0] });
    stored.push("theirs");
    landing.resolve({ kind: "landed" });
    expect(await result).toEqual({ value: "theirs", how: "followed" });
  });

  it("fails as the leader failed", async () => {
    const problem = new Problem("upstream-unavailable", { retryAfterSeconds: 7 });
    expect(await run(follower(Promise.resolve({ kind: "failed", problem })))).toBe(problem);
  });

  it.each<ClaimEnd>([{ kind: "vacant" }, { kind: "landed" }])(
    "has no result if the flight was $kind and nothing is stored",
    async (end) => expect(await run(follower(Promise.resolve(end)))).toBeUndefined(),
  );

  it("leaves when it has no waiters", async () => {
    const controller = new AbortController();
    const never = Promise.withResolvers<ClaimEnd>();
    const result = run(follower(never.promise), {}, controller.signal);
    controller.abort();
    expect(await result).toBeInstanceOf(Problem);
  });
});

it("a replica without claims fetches for itself", async () => {
  expect(await run(undefined, { fetch: async () => "own" })).toEqual({ value: "own", how: "fetched" });
});
