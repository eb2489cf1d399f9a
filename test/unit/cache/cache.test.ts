import { describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Claim, Claims } from "../../../src/singleflight/replicas.ts";
import type { Fetched } from "../../../src/upstream/fetched.ts";
import { fetchedWith } from "../../support/entries.ts";
import { settled } from "../../support/fake-clock.ts";
import { FOUND, KEY, LIFETIME_MS, RULES, setup, type Setup } from "./cache-support.ts";

describe("a question", () => {
  it("purged while its answer is fetched is fetched again", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { ask, fetches, tiers } = setup((nth) => (nth === 1 ? door.promise : Promise.resolve(FOUND)));
    const first = ask();
    await settled();
    await tiers.purge({ kind: "all" }, false);
    door.resolve(FOUND);
    await first;
    expect(await ask()).toMatchObject({ outcome: "miss" });
    expect(fetches()).toBe(2);
  });

  it.each([true, false])(
    "asked after a purge does not get an answer fetched before it (hard: %s)",
    async (hard) => {
      const before = Promise.withResolvers<Fetched>();
      const { ask, tiers, fetches } = setup((nth) => (nth === 1 ? before.promise : Promise.resolve(FOUND)));
      const early = ask();
      await settled();
      await tiers.purge({ kind: "all" }, hard);
      const late = ask();
      await settled();
      before.resolve(fetchedWith({ body: Buffer.from('{"old":true}') }));
      const [old, found] = await Promise.all([early, late]);
      expect(found.entry.etag).not.toBe(old.entry.etag);
      expect(await ask()).toMatchObject({ outcome: "hit", entry: { etag: found.entry.etag } });
      expect(fetches()).toBe(2);
    },
  );

  it("has an answer that is dated by its arrival", async () => {
    const door = Promise.withResolvers<Fetched>();
    const { clock, ask } = setup(() => door.promise);
    const asked = ask();
    await clock.advance(4_000);
    door.resolve(FOUND);
    expect((await asked).entry.storedAt).toBe(clock.now());
  });

  it("is not sent upstream if its answer is stored between lookup and flight", async () => {
    const firstLook = Promise.withResolvers<void>();
    let looks = 0;
    // A store whose first look-up takes so long that another has asked and got its answer meanwhile.
    const { ask, fetches } = setup(async () => FOUND, {
      adapt: (tiers) => ({
        ...tiers,
        async lookup(key) {
          const found = await tiers.lookup(key);
          if ((looks += 1) === 1) await firstLook.promise;
          return found;
        },
      }),
    });
    const slow = ask();
    expect(await ask()).toMatchObject({ outcome: "miss" });
    firstLook.resolve();
    await settled();
    expect(await slow).toMatchObject({ outcome: "hit", forwarded: undefined, stored: true });
    expect(fetches()).toBe(1);
  });
});

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

it("an answer stored with a longer lifetime is not served beyond maxAgeEver", async () => {
  const { clock, ask, tiers, fetches } = setup(async () => FOUND);
  await ask();
  const entry = (await tiers.lookup(KEY))?.entry;
  if (entry === undefined) throw new Error("nothing was kept");
  await tiers.keep(KEY, { ...entry, freshUntil: entry.storedAt + 2_000_000 });
  await clock.advance(RULES.maxAgeEverMs + 1);
  expect(await ask()).toMatchObject({ outcome: "miss", forwarded: "stale" });
  expect(fetches()).toBe(2);
});

it("an answer from before the clock was set back is not served", async () => {
  const { clock, ask, fetches } = setup(async () => FOUND);
  await ask();
  clock.set(clock.now() - 86_400_000);
  expect(await ask()).toMatchObject({ outcome: "miss", stored: true });
  expect(await ask()).toMatchObject({ outcome: "hit" });
  await clock.advance(LIFETIME_MS);
  expect(await ask()).toMatchObject({ outcome: "miss", forwarded: "stale" });
  expect(fetches()).toBe(3);
});
