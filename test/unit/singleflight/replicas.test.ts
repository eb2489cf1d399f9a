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

describe("a flight among replicas", () => {
  it("does not call the upstream if the answer has been stored", async () => {
    const leadOrFollow = createLeadOrFollow<string>(claimsOf());
    const fetch = async (): Promise<string> => expect.unreachable();
    expect(await leadOrFollow("k", waitingFor(), { look: async () => "there", fetch })).toEqual({
      value: "there",
      how: "found",
    });
  });

  it("is made by the replica that claims it, which then announces its end", async () => {
    const ends: ClaimEnd[] = [];
    const leadOrFollow = createLeadOrFollow<string>(claimsOf(leader(async (end) => void ends.push(end))));
    expect(await leadOrFollow("k", waitingFor(), { look: nothing, fetch: async () => "new" })).toEqual({
      value: "new",
      how: "fetched",
    });
    expect(ends).toEqual([{ kind: "landed" }]);
  });

  it("is not made twice if the last leader ended just before the claim", async () => {
    const ends: ClaimEnd[] = [];
    const leadOrFollow = createLeadOrFollow<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const looks = ["landed meanwhile"];
    const result = await leadOrFollow("k", waitingFor(), {
      look: async () => looks.shift(),
      fetch: async () => expect.unreachable(),
    });
    expect(result).toEqual({ value: "landed meanwhile", how: "found" });
    expect(ends).toEqual([{ kind: "landed" }]);
  });

  it("is free for the others at once if the lookup before it fails", async () => {
    const ends: ClaimEnd[] = [];
    const mistake = new TypeError("a mistake");
    const leadOrFollow = createLeadOrFollow<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const result = leadOrFollow("k", waitingFor(), {
      look: () => Promise.reject(mistake),
      fetch: async () => expect.unreachable(),
    });
    await expect(result).rejects.toBe(mistake);
    expect(ends).toEqual([{ kind: "vacant" }]);
  });

  it("announces why it failed", async () => {
    const ends: ClaimEnd[] = [];
    const problem = new Problem("upstream-error");
    const leadOrFollow = createLeadOrFollow<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const result = leadOrFollow("k", waitingFor(), { look: nothing, fetch: () => Promise.reject(problem) });
    await expect(result).rejects.toBe(problem);
    expect(ends).toEqual([{ kind: "failed", problem }]);
  });

  it("is free for the others when it was withdrawn without waiters", async () => {
    const ends: ClaimEnd[] = [];
    const abandoned = AbortSignal.abort();
    const leadOrFollow = createLeadOrFollow<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const refusal = new Problem("temporary-reduced-capacity");
    const result = leadOrFollow("k", waitingFor(abandoned), {
      look: nothing,
      fetch: () => Promise.reject(refusal),
    });
    await expect(result).rejects.toBe(refusal);
    expect(ends).toEqual([{ kind: "vacant" }]);
  });

  it.each(["quota-exceeded", "temporary-reduced-capacity"] as const)(
    "is open to the others where there was no place for it (%s): they may have one",
    async (code) => {
      const ends: ClaimEnd[] = [];
      const leadOrFollow = createLeadOrFollow<string>(claimsOf(leader(async (end) => void ends.push(end))));
      const refusal = new Problem(code);
      const result = leadOrFollow("k", waitingFor(), { look: nothing, fetch: () => Promise.reject(refusal) });
      await expect(result).rejects.toBe(refusal);
      expect(ends).toEqual([{ kind: "vacant" }]);
    },
  );

  it("announces why it failed, also without waiters", async () => {
    const ends: ClaimEnd[] = [];
    const problem = new Problem("upstream-timeout");
    const leadOrFollow = createLeadOrFollow<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const waiting = waitingFor(AbortSignal.abort());
    const result = leadOrFollow("k", waiting, { look: nothing, fetch: () => Promise.reject(problem) });
    await expect(result).rejects.toBe(problem);
    expect(ends).toEqual([{ kind: "failed", problem }]);
  });

  it("is followed to its end", async () => {
    const landing = Promise.withResolvers<ClaimEnd>();
    const stored: string[] = [];
    const result = createLeadOrFollow<string>(claimsOf(follower(landing.promise)))("k", waitingFor(), {
      look: async () => stored[0],
      fetch: async () => expect.unreachable(),
    });
    stored.push("theirs");
    landing.resolve({ kind: "landed" });
    expect(await result).toEqual({ value: "theirs", how: "followed" });
  });

  it("fails for its followers as it failed for its leader", async () => {
    const problem = new Problem("upstream-unavailable", { retryAfterSeconds: 7 });
    const leadOrFollow = createLeadOrFollow<string>(
      claimsOf(follower(Promise.resolve({ kind: "failed", problem }))),
    );
    const result = leadOrFollow("k", waitingFor(), {
      look: nothing,
      fetch: async () => expect.unreachable(),
    });
    await expect(result).rejects.toBe(problem);
  });

  it.each<ClaimEnd>([{ kind: "vacant" }, { kind: "landed" }])(
    "has no result for a follower when it was $kind and nothing is stored",
    async (end) => {
      const claims = claimsOf(follower(Promise.resolve(end)));
      const steps = { look: nothing, fetch: async () => expect.unreachable() };
      expect(await createLeadOrFollow<string>(claims)("k", waitingFor(), steps)).toBeUndefined();
    },
  );

  it("is made by each replica itself while claims are unavailable", async () => {
    const result = await createLeadOrFollow<string>(claimsOf())("k", waitingFor(), {
      look: nothing,
      fetch: async () => "own",
    });
    expect(result).toEqual({ value: "own", how: "fetched" });
  });

  it("is left by a follower without waiters", async () => {
    const controller = new AbortController();
    const never = Promise.withResolvers<ClaimEnd>();
    const result = createLeadOrFollow<string>(claimsOf(follower(never.promise)))(
      "k",
      waitingFor(controller.signal),
      {
        look: nothing,
        fetch: async () => expect.unreachable(),
      },
    );
    controller.abort();
    await expect(result).rejects.toBeInstanceOf(Problem);
  });
});
