import { describe, expect, it } from "vitest";

import { createFly } from "../../../src/singleflight/replicas.ts";
import { Problem } from "../../../src/errors.ts";
import type { Claim, ClaimEnd, Claims, FlightWaiting } from "../../../src/types.ts";
import { waitingOf } from "../../support/waiting.ts";

/** Claims that a test hands out one after the other. */
function claimsOf(...handed: Claim[]): Claims & { left: () => number } {
  return {
    claim: async () => handed.shift() ?? { kind: "unavailable" },
    left: () => handed.length,
  };
}

function waitingFor(abandoned = new AbortController().signal): FlightWaiting {
  return waitingOf({ abandoned });
}

const nothing = async (): Promise<string | undefined> => undefined;

function follower(ended: Promise<ClaimEnd>): Claim {
  return { kind: "follower", ended, tell: () => undefined, stop: () => undefined };
}

function leader(release: (end: ClaimEnd) => Promise<void> = async () => undefined): Claim {
  return { kind: "leader", hear: () => undefined, release };
}

describe("a flight among replicas", () => {
  it("is not launched where the value is there by now", async () => {
    const fly = createFly<string>(claimsOf());
    const fetch = async (): Promise<string> => expect.unreachable();
    expect(await fly("k", waitingFor(), { look: async () => "there", fetch })).toEqual({
      value: "there",
      how: "found",
    });
  });

  it("is flown by the replica that claims it, which then says that it has landed", async () => {
    const ends: ClaimEnd[] = [];
    const fly = createFly<string>(claimsOf(leader(async (end) => void ends.push(end))));
    expect(await fly("k", waitingFor(), { look: nothing, fetch: async () => "new" })).toEqual({
      value: "new",
      how: "fetched",
    });
    expect(ends).toEqual([{ kind: "landed" }]);
  });

  it("is not flown twice where the last leader landed just before the claim", async () => {
    const ends: ClaimEnd[] = [];
    const fly = createFly<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const looks = [undefined, "landed meanwhile"];
    const flown = await fly("k", waitingFor(), {
      look: async () => looks.shift(),
      fetch: async () => expect.unreachable(),
    });
    expect(flown).toEqual({ value: "landed meanwhile", how: "found" });
    expect(ends).toEqual([{ kind: "landed" }]);
  });

  it("is open to the others at once where the look before it fails: they need not wait for the lease", async () => {
    const ends: ClaimEnd[] = [];
    const mistake = new TypeError("a mistake");
    const looks = [nothing, () => Promise.reject(mistake)];
    const fly = createFly<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const flown = fly("k", waitingFor(), {
      look: () => (looks.shift() ?? nothing)(),
      fetch: async () => expect.unreachable(),
    });
    await expect(flown).rejects.toBe(mistake);
    expect(ends).toEqual([{ kind: "vacant" }]);
  });

  it("tells the others why it failed", async () => {
    const ends: ClaimEnd[] = [];
    const problem = new Problem("upstream-error");
    const fly = createFly<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const flown = fly("k", waitingFor(), { look: nothing, fetch: () => Promise.reject(problem) });
    await expect(flown).rejects.toBe(problem);
    expect(ends).toEqual([{ kind: "failed", problem }]);
  });

  it("is open to the others again where it was withdrawn because nobody here waits any more", async () => {
    const ends: ClaimEnd[] = [];
    const abandoned = AbortSignal.abort();
    const fly = createFly<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const refusal = new Problem("temporary-reduced-capacity");
    const flown = fly("k", waitingFor(abandoned), { look: nothing, fetch: () => Promise.reject(refusal) });
    await expect(flown).rejects.toBe(refusal);
    expect(ends).toEqual([{ kind: "vacant" }]);
  });

  it.each(["quota-exceeded", "temporary-reduced-capacity"] as const)(
    "is open to the others where there was no place for it (%s): they may have one",
    async (code) => {
      const ends: ClaimEnd[] = [];
      const fly = createFly<string>(claimsOf(leader(async (end) => void ends.push(end))));
      const refusal = new Problem(code);
      const flown = fly("k", waitingFor(), { look: nothing, fetch: () => Promise.reject(refusal) });
      await expect(flown).rejects.toBe(refusal);
      expect(ends).toEqual([{ kind: "vacant" }]);
    },
  );

  it("tells the others why it failed, although nobody here waits any more for what had been sent", async () => {
    const ends: ClaimEnd[] = [];
    const problem = new Problem("upstream-timeout");
    const fly = createFly<string>(claimsOf(leader(async (end) => void ends.push(end))));
    const waiting = waitingFor(AbortSignal.abort());
    const flown = fly("k", waiting, { look: nothing, fetch: () => Promise.reject(problem) });
    await expect(flown).rejects.toBe(problem);
    expect(ends).toEqual([{ kind: "failed", problem }]);
  });

  it("is followed to its landing", async () => {
    const landing = Promise.withResolvers<ClaimEnd>();
    const stored: string[] = [];
    const looked = Promise.withResolvers<void>();
    let looks = 0;
    const flown = createFly<string>(claimsOf(follower(landing.promise)))("k", waitingFor(), {
      look: async () => {
        if (++looks === 2) looked.resolve();
        return stored[0];
      },
      fetch: async () => expect.unreachable(),
    });
    await looked.promise;
    stored.push("theirs");
    landing.resolve({ kind: "landed" });
    expect(await flown).toEqual({ value: "theirs", how: "followed" });
  });

  it("fails for its followers as it failed for its leader", async () => {
    const problem = new Problem("upstream-unavailable", { retryAfterSeconds: 7 });
    const fly = createFly<string>(claimsOf(follower(Promise.resolve({ kind: "failed", problem }))));
    const flown = fly("k", waitingFor(), { look: nothing, fetch: async () => expect.unreachable() });
    await expect(flown).rejects.toBe(problem);
  });

  it("is claimed anew where its leader died, or landed something that could not be stored", async () => {
    const claims = claimsOf(
      follower(Promise.resolve({ kind: "vacant" })),
      follower(Promise.resolve({ kind: "landed" })),
      leader(),
    );
    const flown = await createFly<string>(claims)("k", waitingFor(), {
      look: nothing,
      fetch: async () => "mine",
    });
    expect(flown).toEqual({ value: "mine", how: "fetched" });
    expect(claims.left()).toBe(0);
  });

  it("is everyone's own where claims are out of order", async () => {
    const flown = await createFly<string>(claimsOf())("k", waitingFor(), {
      look: nothing,
      fetch: async () => "own",
    });
    expect(flown).toEqual({ value: "own", how: "fetched" });
  });

  it("knows of those who follow it before it is asked for", async () => {
    const steps: string[] = [];
    const waiting = waitingFor();
    const claim: Claim = {
      kind: "leader",
      hear: (who) => void steps.push(who === waiting ? "hears" : "hears for another"),
      release: async () => void steps.push("released"),
    };
    const fetch = async (): Promise<string> => (steps.push("asks"), "new");
    await createFly<string>(claimsOf(claim))("k", waiting, { look: nothing, fetch });
    expect(steps).toEqual(["hears", "asks", "released"]);
  });

  it.each([
    ["told who waits for it with a follower", [], 1],
    ["told nothing where it has landed by then", ["theirs"], 0],
  ])("is %s", async (_name, looks, times) => {
    const waiting = waitingFor();
    const told: unknown[] = [];
    const claim: Claim = {
      kind: "follower",
      ended: Promise.resolve({ kind: "failed", problem: new Problem("upstream-error") }),
      tell: (who) => void told.push(who),
      stop: () => undefined,
    };
    const left: (string | undefined)[] = [undefined, ...looks];
    const flown = createFly<string>(claimsOf(claim))("k", waiting, {
      look: async () => left.shift(),
      fetch: async () => expect.unreachable(),
    });
    await flown.catch(() => undefined);
    expect(told).toEqual(Array.from({ length: times }, () => waiting));
  });

  it("is left by a follower for whom nobody waits any more", async () => {
    const controller = new AbortController();
    const never = Promise.withResolvers<ClaimEnd>();
    const flown = createFly<string>(claimsOf(follower(never.promise)))("k", waitingFor(controller.signal), {
      look: nothing,
      fetch: async () => expect.unreachable(),
    });
    controller.abort();
    await expect(flown).rejects.toBeInstanceOf(Problem);
  });
});
