import { expect, it } from "vitest";

import { createLeadOrFollow } from "../../../src/singleflight/replica-leader.ts";
import type { Claim, Failure } from "../../../src/singleflight/replica-leases.ts";
import { Problem } from "../../../src/errors.ts";

const FAILURE = new Problem("upstream-error");
const BAD_KEY = new Problem("upstream-authentication-failed");
const REFUSAL = new Problem("quota-exceeded");
const UNREACHED = new Problem("upstream-unreachable");
const STOPPING = new Problem("shutting-down", { refusedHere: true });
const MISTAKE = new TypeError("a mistake");

interface Steps {
  readonly claim: Claim;
  readonly look?: () => Promise<string | undefined>;
  readonly fetch?: () => Promise<string>;
  readonly abandoned?: AbortSignal;
}

/** Runs a flight with a claim. Nothing is stored, unless `look` says so. */
function run({ claim, abandoned = new AbortController().signal, ...steps }: Steps): Promise<unknown> {
  const { look = async () => undefined, fetch = () => Promise.reject(MISTAKE) } = steps;
  const leadOrFollow = createLeadOrFollow<string>({ claim: async () => claim });
  return leadOrFollow("k", abandoned, { look, fetch }).catch((error: unknown) => error);
}

it.each<[string, Omit<Steps, "claim" | "abandoned">, unknown, Failure]>([
  ["fetches", { fetch: async () => "new" }, "new", undefined],
  ["finds it stored", { look: async () => "theirs" }, "theirs", undefined],
  ["cannot look", { look: () => Promise.reject(MISTAKE) }, MISTAKE, undefined],
  ["fails", { fetch: () => Promise.reject(FAILURE) }, FAILURE, FAILURE],
  ["has a bad key", { fetch: () => Promise.reject(BAD_KEY) }, BAD_KEY, undefined],
  ["is refused here", { fetch: () => Promise.reject(REFUSAL) }, REFUSAL, undefined],
  ["reaches nothing", { fetch: () => Promise.reject(UNREACHED) }, UNREACHED, undefined],
  ["is stopping", { fetch: () => Promise.reject(STOPPING) }, STOPPING, undefined],
])("a leader that %s tells the others, with waiters and without", async (_how, steps, result, failure) => {
  for (const abandoned of [new AbortController().signal, AbortSignal.abort()]) {
    const ends: Failure[] = [];
    const claim: Claim = { kind: "leader", release: async (how) => void ends.push(how) };
    expect(await run({ claim, abandoned, ...steps })).toEqual(result);
    expect(ends).toEqual([failure]);
  }
});

it.each<[Failure, string | undefined, unknown]>([
  [undefined, "theirs", "theirs"],
  [undefined, undefined, undefined],
  [FAILURE, undefined, FAILURE],
])("a follower of a flight that ended with %j, with %s stored, gets %j", async (failure, stored, result) => {
  const claim: Claim = { kind: "follower", ended: Promise.resolve(failure) };
  expect(await run({ claim, look: async () => stored })).toEqual(result);
});
