import { describe, expect, it } from "vitest";

import { createHearings, type Hearing } from "../../../src/singleflight/redis-claim-hearing.ts";
import type { Party, Priority } from "../../../src/types.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";

interface Setup {
  readonly clock: FakeClock;
  readonly hearing: Hearing;
  /** What was passed on, in words. */
  readonly told: string[];
  readonly waiting: { readonly elsewhere: (replica: string, party: Party) => void };
  readonly say: (from: string, apps: readonly string[], forMs?: number, priority?: Priority) => void;
}

/** A leader that listens for the flight `mine`. */
function setup(): Setup {
  const clock = createFakeClock();
  const hearings = createHearings(clock);
  const told: string[] = [];
  return {
    clock,
    hearing: hearings.listen("mine"),
    told,
    waiting: {
      elsewhere: (replica, { apps, priority }) =>
        void told.push(`${replica}: ${apps.length === 0 ? "nobody" : `${apps.join(" ")} ${priority}`}`),
    },
    say: (from, apps, forMs = 1_000, priority = "interactive") =>
      hearings.onWaiting({ kind: "waiting", holder: "mine", from, party: { apps, priority }, forMs }),
  };
}

describe("a leader", () => {
  it("hears who waits at each replica, and who does not any more", () => {
    const { clock, hearing, told, waiting, say } = setup();
    hearing.passOn(waiting);
    say("one", ["web"], 1_000, "background");
    say("other", ["mobile"]);
    say("one", ["web", "mobile"]);
    say("one", [], 0);
    expect(told).toEqual([
      "one: web background",
      "other: mobile interactive",
      "one: web mobile interactive",
      "one: nobody",
    ]);
    expect(clock.pending).toBe(1);
  });

  it("misses nothing that is said between its claim and its call", () => {
    const { hearing, told, waiting, say } = setup();
    say("one", ["web"]);
    say("other", ["mobile"]);
    say("other", [], 0);
    hearing.passOn(waiting);
    expect(told).toEqual(["one: web interactive"]);
  });

  it("believes it until the deadline that it was told of, and no longer", async () => {
    const { clock, hearing, told, waiting, say } = setup();
    hearing.passOn(waiting);
    say("one", ["web"], 1_000);
    await clock.advance(500);
    say("one", ["web"], 1_000);
    say("late", ["web"], 0);
    await clock.advance(999);
    expect(told).toEqual(["one: web interactive", "one: web interactive"]);
    await clock.advance(1);
    expect(told.slice(2)).toEqual(["one: nobody"]);
    expect(clock.pending).toBe(0);
  });

  it("is not told of those who wait for another flight", () => {
    const { clock, hearing, told, waiting } = setup();
    const hearings = createHearings(clock);
    hearings.listen("theirs");
    hearing.passOn(waiting);
    const party: Party = { apps: ["web"], priority: "interactive" };
    hearings.onWaiting({ kind: "waiting", holder: "theirs", from: "one", party, forMs: 1_000 });
    hearings.onWaiting({ kind: "waiting", holder: "unknown", from: "one", party, forMs: 1_000 });
    expect(told).toEqual([]);
    expect(clock.pending).toBe(1);
  });

  it("forgets everyone when its flight has ended", () => {
    const { clock, hearing, told, waiting, say } = setup();
    hearing.passOn(waiting);
    say("one", ["web"]);
    hearing.stop();
    say("one", ["mobile"]);
    say("other", ["web"]);
    expect(told).toEqual(["one: web interactive"]);
    expect(clock.pending).toBe(0);
  });

  it("remembers no more replicas than there can be", () => {
    const { clock, hearing, told, waiting, say } = setup();
    hearing.passOn(waiting);
    for (let replica = 0; replica < 10_000; replica++) say(String(replica), ["web"]);
    expect([told.length, clock.pending]).toEqual([256, 256]);
    // One that it knows is heard all the same.
    say("0", ["mobile"]);
    expect(told.at(-1)).toBe("0: mobile interactive");
  });
});
