import { describe, expect, it } from "vitest";

import { createTelling, type Telling } from "../../../src/singleflight/redis-claim-telling.ts";
import { createFlights } from "../../../src/singleflight/flight.ts";
import type { Priority } from "../../../src/types.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";

interface Setup {
  readonly clock: FakeClock;
  readonly telling: Telling;
  /** What was said, in words. */
  readonly said: string[];
  /** A caller comes. @returns has it hang up */
  readonly come: (app: string, deadlineMs?: number, priority?: Priority) => () => Promise<void>;
}

/** A flight that follows another replica's: its callers are told of. */
function setup(): Setup {
  const clock = createFakeClock();
  const flights = createFlights<never>(clock);
  const said: string[] = [];
  const telling = createTelling(clock, ({ apps, priority }, forMs) => {
    said.push(`${apps.length === 0 ? "nobody" : `${apps.join(" ")} ${priority}`} for ${forMs}`);
  });
  return {
    clock,
    telling,
    said,
    come(app, deadlineMs = 1_000, priority = "interactive") {
      const hangUp = new AbortController();
      const waiter = { app, priority, deadlineAt: clock.now() + deadlineMs, gone: hangUp.signal };
      const joined = flights.join("key", waiter, (waiting) => {
        telling.tell(waiting);
        return new Promise(() => undefined);
      });
      joined.catch(() => undefined);
      return async () => {
        hangUp.abort();
        await clock.advance(0);
      };
    },
  };
}

describe("a follower", () => {
  it("tells once of an app, however many of its callers come and go", async () => {
    const { clock, said, come } = setup();
    const leaves = Array.from({ length: 1_000 }, () => come("web"));
    await clock.advance(0);
    for (const leave of leaves.slice(1)) await leave();
    expect(said).toEqual(["web interactive for 1000"]);
  });

  it("tells of an app more or less, and of somebody more urgent", async () => {
    const { clock, said, come } = setup();
    come("nightly", 1_000, "background");
    await clock.advance(100);
    come("weekly", 900, "background");
    const leave = come("web", 2_000);
    come("nightly", 900, "background");
    await leave();
    expect(said).toEqual([
      "nightly background for 1000",
      "nightly weekly background for 900",
      "nightly weekly web interactive for 2000",
      "nightly weekly interactive for 900",
    ]);
  });

  it("tells nothing of a refresh, until a caller waits for it", async () => {
    const { clock, said, come } = setup();
    come("web", 2_000, "refresh");
    come("mobile", 2_000, "prefetch");
    await clock.advance(100);
    expect(said).toEqual([]);
    come("web", 500);
    expect(said).toEqual(["web mobile interactive for 1900"]);
  });

  it("tells again where somebody still waits when the time it told of has passed, and not else", async () => {
    const { clock, said, come } = setup();
    come("web", 1_000);
    await clock.advance(600);
    come("web", 1_000);
    await clock.advance(399);
    expect(said).toEqual(["web interactive for 1000"]);
    await clock.advance(1);
    expect(said.slice(1)).toEqual(["web interactive for 600"]);
    await clock.advance(10_000);
    expect(said).toHaveLength(2);
    expect(clock.pending).toBe(0);
  });

  it("says when nobody waits any more, where it had said that somebody does", async () => {
    const { clock, telling, said, come } = setup();
    come("web");
    await clock.advance(0);
    telling.leave();
    telling.leave();
    expect(said).toEqual(["web interactive for 1000", "nobody for 0"]);
    const silent = setup();
    silent.come("web", 1_000, "refresh");
    await silent.clock.advance(0);
    silent.telling.leave();
    expect(silent.said).toEqual([]);
  });

  it("says nothing to a leader whose flight has ended", async () => {
    const { clock, telling, said, come } = setup();
    come("web");
    await clock.advance(0);
    telling.stop();
    telling.leave();
    come("mobile");
    await clock.advance(5_000);
    expect(said).toEqual(["web interactive for 1000"]);
  });
});
