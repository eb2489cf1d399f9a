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
  it("passes on answers", async () => {
    expect(await breaker.run("a key", service.call)).toBe("answer");
    expect(states).toEqual([]);
  });

  it("passes on errors of the call itself", async () => {
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

  it("ends a call at its timeout", async () => {
    service.how = "is silent";
    const ended = outcome(breaker.run("a key", service.call));
    await clock.advance(0.8 * TIMEOUT_MS);
    expect(breaker.state).toBe("closed");
    await clock.advance(0.2 * TIMEOUT_MS);
    expect(breaker.state).toBe("open");
    expect(await ended).toMatchObject({ name: "BreakerOpen", message: "no answer within 50 ms" });
  });

  it("releases all callers when the first one times out", async () => {
    service.how = "is silent";
    const first = outcome(breaker.run("the first", service.call));
    await clock.advance(0.6 * TIMEOUT_MS);
    const others = Array.from({ length: 999 }, () => outcome(breaker.run("other", service.call)));
    await clock.advance(0.4 * TIMEOUT_MS);
    const ends = await Promise.all([first, ...others]);
    expect(new Set(ends.map((end) => end instanceof BreakerOpen))).toEqual(new Set([true]));
    expect(faults).toMatchObject([{ about: "the first" }]);
  });

  it("does not count the time in which this process was busy", async () => {
    service.how = "is silent";
    const answer = Promise.withResolvers<string>();
    const ended = outcome(breaker.run("a key", () => answer.promise));
    // The event loop stood still for ten timeouts: the timer fires, late, and once.
    clock.set(clock.now() + 10 * TIMEOUT_MS);
    await clock.advance(0);
    answer.resolve("was in the socket all the time");
    expect(await ended).toBe("was in the socket all the time");
  });

  it("probes once in every interval while it is open", async () => {
    await open();
    for (let interval = 1; interval <= 3; interval++) {
      await clock.advance(0.5 * PROBE_INTERVAL_MS);
      await Promise.all(Array.from({ length: 100 }, () => outcome(breaker.run("a key", service.call))));
      await clock.advance(0.5 * PROBE_INTERVAL_MS);
      expect(service.probes).toHaveLength(interval);
    }
    expect(service.calls).toBe(1 + 3);
  });

  it("refuses callers at once during a probe", async () => {
    await open();
    service.how = "is silent";
    await clock.advance(PROBE_INTERVAL_MS);
    expect(breaker.state).toBe("half-open");
    expect(await outcome(breaker.run("a key", service.call))).toBeInstanceOf(BreakerOpen);
    await clock.advance(TIMEOUT_MS);
    expect(breaker.state).toBe("open");
    expect(faults.map(({ foundBy }) => foundBy)).toEqual(["call", "probe"]);
  });

  it("closes when the service is back", async () => {
    await open();
    service.how = "answers";
    await clock.advance(PROBE_INTERVAL_MS);
    expect(states).toEqual(["open", "half-open", "closed"]);
    expect(await breaker.run("a key", service.call)).toBe("answer");
    await open();
    expect(states.at(-1)).toBe("open");
  });

  it("closes when a probe gets an error reply", async () => {
    await open();
    service.how = "refuses this call";
    await clock.advance(PROBE_INTERVAL_MS);
    expect(breaker.state).toBe("closed");
  });

  it("probes with the key of the failed call", async () => {
    service.how = "is silent";
    void outcome(breaker.run("in the sick part", service.call));
    await clock.advance(TIMEOUT_MS + PROBE_INTERVAL_MS);
    expect(service.probes).toEqual(["in the sick part"]);
  });

  it("does not open again for an old call that fails late", async () => {
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

  it("probes at once on a sign of life, until such a probe fails", async () => {
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

  it("refuses all calls and does not probe after close()", async () => {
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
