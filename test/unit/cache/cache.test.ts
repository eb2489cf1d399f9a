import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Claim, Claims } from "../../../src/singleflight/replicas.ts";
import type { Fetched } from "../../../src/upstream/verdict.ts";
import { settled } from "../../support/fake-clock.ts";
import { FOUND, KEY, LIFETIME_MS, setup, type Setup } from "./cache-support.ts";

describe("a question that the gateway refuses to ask", () => {
  const refusal = new Problem("quota-exceeded", { retryAfterSeconds: 40 });

  /** Answers the first time, and then not. */
  function refusing(first: Fetched = FOUND, problem: Error = refusal): Setup {
    return setup(async (nth) => {
      if (nth === 1) return first;
      throw problem;
    });
  }

  it("does not get an answer that was hard-purged while it was queued", async () => {
    const turn = Promise.withResolvers<Fetched>();
    const { clock, ask, tiers } = setup((nth) => (nth === 1 ? Promise.resolve(FOUND) : turn.promise));
    await ask();
    await clock.advance(LIFETIME_MS);
    const waiting = ask();
    await settled();
    await tiers.purge({ kind: "key", key: KEY }, true);
    turn.reject(refusal);
    await expect(waiting).rejects.toBe(refusal);
  });

  it("gets no stale answer after an internal error", async () => {
    const mistake = new TypeError("a mistake");
    const { clock, ask } = refusing(FOUND, mistake);
    await ask();
    await clock.advance(LIFETIME_MS);
    await expect(ask()).rejects.toBe(mistake);
  });

  it("gets the stale answer also if another replica's flight was refused", async () => {
    const ended = Promise.resolve({ kind: "failed", problem: refusal } as const);
    const roles: Claim[] = [
      { kind: "unavailable" },
      { kind: "follower", ended, stop: () => undefined },
      { kind: "follower", ended, stop: () => undefined },
    ];
    const claims: Claims = { claim: async () => roles.shift() ?? { kind: "unavailable" } };
    const { clock, ask, fetches } = setup(async () => FOUND, { claims });
    await ask();
    await clock.advance(LIFETIME_MS);
    expect(await ask()).toMatchObject({ outcome: "stale", note: "quota-exceeded" });
    await expect(ask("listings?areaId=1&offset=0")).rejects.toBe(refusal);
    expect(fetches()).toBe(1);
  });
});
