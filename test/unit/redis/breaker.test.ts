import { beforeEach, describe, expect, it } from "vitest";

import {
  type Breaker,
  BreakerOpen,
  type BreakerState,
  createBreaker,
  type Fault,
} from "../../../src/redis/breaker.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";

const TIMEOUT_MS = 50;
const PROBE_INTERVAL_MS = 1000;

class Harmless extends Error {}

/** A service that a test puts in and out of order. */
interface Service {
  how: "answers" | "is silent" | "fails" | "refuses this call";
  calls: number;
  probes: string[];
  call: () => Promise<string>;
}

let clock: FakeClock;
let service: Service;
let states: BreakerState[];
let faults: Fault[];
let breaker: Breaker;

beforeEach(() => {
  clock = createFakeClock();
  states = [];
  faults = [];
  service = {
    how: "answers",
    calls: 0,
    probes: [],
    async call() {
      service.calls++;
      if (service.how === "is silent") return await new Promise<never>(() => undefined);
      if (service.how === "fails") throw new Error("connection refused");
      if (service.how === "refuses this call") throw new Harmless("wrong type");
      return "answer";
    },
  };
  breaker = createBreaker({
    clock,
    timeoutMs: TIMEOUT_MS,
    probeIntervalMs: PROBE_INTERVAL_MS,
    probe: (about) => {
      service.probes.push(about);
      return service.call();
    },
    isFault: (error) => !(error instanceof Harmless),
    onFault: (fault) => void faults.push(fault),
    onState: (state) => void states.push(state),
  });
});

/** How a call ended: its value, or its error. */
function outcome(call: Promise<string>): Promise<unknown> {
  return call.catch((error: unknown) => error);
}

async function open(): Promise<void> {
  service.how = "fails";
  await outcome(breaker.run("a key", service.call));
}

describe("a breaker", () => {
  it("passes on what is answered", async () => {
    expect(await breaker.run("a key", service.call)).toBe("answer");
    expect(states).toEqual([]);
  });

  it("passes on an error that is the call's own", async () => {
    service.how = "refuses this call";
    await expect(breaker.run("a key", service.call)).rejects.toBeInstanceOf(Harmless);
    expect(breaker.state).toBe("closed");
  });

  it("opens at the first fault, and then refuses without calling", async () => {
    await open();
    service.how = "answers";
    const refused = await outcome(breaker.run("another key", service.call));
    expect(refused).toBeInstanceOf(BreakerOpen);
    expect(refused).toMatchObject({ message: "connection refused" });
    expect(service.calls).toBe(1);
    expect(states).toEqual(["open"]);
    expect(faults).toMatchObject([{ foundBy: "call", about: "a key" }]);
  });

  it("gives a call as long as it may take, and no longer", async () => {
    service.how = "is silent";
    const ended = outcome(breaker.run("a key", service.call));
    await clock.advance(0.8 * TIMEOUT_MS);
    expect(breaker.state).toBe("closed");
    await clock.advance(0.2 * TIMEOUT_MS);
    expect(breaker.state).toBe("open");
    expect(await ended).toMatchObject({ name: "BreakerOpen", message: "no answer within 50 ms" });
  });

  it("releases a thousand callers at once when the first of them has waited too long", async () => {
    service.how = "is silent";
    const first = outcome(breaker.run("the first", service.call));
    await clock.advance(0.6 * TIMEOUT_MS);
    const others = Array.from({ length: 999 }, () => outcome(breaker.run("other", service.call)));
    await clock.advance(0.4 * TIMEOUT_MS);
    const ends = await Promise.all([first, ...others]);
    expect(new Set(ends.map((end) => end instanceof BreakerOpen))).toEqual(new Set([true]));
    expect(faults).toMatchObject([{ about: "the first" }]);
  });

  it("does not blame the service for the time this process was busy itself", async () => {
    service.how = "is silent";
    const answer = Promise.withResolvers<string>();
    const ended = outcome(breaker.run("a key", () => answer.promise));
    // The event loop stood still for ten timeouts: the timer fires, late, and once.
    clock.set(clock.now() + 10 * TIMEOUT_MS);
    await clock.advance(0);
    answer.resolve("was in the socket all the time");
    expect(await ended).toBe("was in the socket all the time");
  });

  it("asks once in every interval while the service is out of order, whatever is called", async () => {
    await open();
    for (let interval = 1; interval <= 3; interval++) {
      await clock.advance(0.5 * PROBE_INTERVAL_MS);
      await Promise.all(Array.from({ length: 100 }, () => outcome(breaker.run("a key", service.call))));
      await clock.advance(0.5 * PROBE_INTERVAL_MS);
      expect(service.probes).toHaveLength(interval);
    }
    expect(service.calls).toBe(1 + 3);
  });

  it("refuses callers at once while it is asking", async () => {
    await open();
    service.how = "is silent";
    await clock.advance(PROBE_INTERVAL_MS);
    expect(breaker.state).toBe("half-open");
    expect(await outcome(breaker.run("a key", service.call))).toBeInstanceOf(BreakerOpen);
    await clock.advance(TIMEOUT_MS);
    expect(breaker.state).toBe("open");
    expect(faults.map(({ foundBy }) => foundBy)).toEqual(["call", "probe"]);
  });

  it("closes when the service is back, and is as it was", async () => {
    await open();
    service.how = "answers";
    await clock.advance(PROBE_INTERVAL_MS);
    expect(states).toEqual(["open", "half-open", "closed"]);
    expect(await breaker.run("a key", service.call)).toBe("answer");
    await open();
    expect(states.at(-1)).toBe("open");
  });

  it("takes an answer that refuses the question for a sign of life", async () => {
    await open();
    service.how = "refuses this call";
    await clock.advance(PROBE_INTERVAL_MS);
    expect(breaker.state).toBe("closed");
  });

  it("asks about what met the fault", async () => {
    service.how = "is silent";
    void outcome(breaker.run("in the sick part", service.call));
    await clock.advance(TIMEOUT_MS + PROBE_INTERVAL_MS);
    expect(service.probes).toEqual(["in the sick part"]);
  });

  it("does not open again for a call from before the outage that fails late", async () => {
    const old = Promise.withResolvers<string>();
    const ended = outcome(breaker.run("old", () => old.promise));
    await open();
    service.how = "answers";
    await clock.advance(PROBE_INTERVAL_MS);
    old.reject(new Error("connection lost"));
    expect(await ended).toBeInstanceOf(BreakerOpen);
    expect(await breaker.run("a key", service.call)).toBe("answer");
    expect(breaker.state).toBe("closed");
  });

  it("asks at once on a sign of life, but only until it was asked in vain", async () => {
    await open();
    breaker.signOfLife();
    await clock.advance(0);
    expect(service.probes).toHaveLength(1);
    breaker.signOfLife();
    await clock.advance(0);
    expect(service.probes).toHaveLength(1);
    service.how = "answers";
    await clock.advance(PROBE_INTERVAL_MS);
    expect(breaker.state).toBe("closed");
  });

  it("closes for good: nobody waits, nobody is called, nobody is asked", async () => {
    service.how = "is silent";
    const ended = outcome(breaker.run("a key", service.call));
    breaker.close();
    expect(await ended).toBeInstanceOf(BreakerOpen);
    expect(await outcome(breaker.run("a key", service.call))).toMatchObject({ message: "closed" });
    await clock.advance(10 * PROBE_INTERVAL_MS);
    expect(service.calls).toBe(1);
    expect(states).toEqual([]);
  });
});
