import { describe, expect, it } from "vitest";

import { giveBack } from "../../../src/ratelimit/arbiter.ts";
import { type Circuit, opened, passableAt, stateOf } from "../../../src/ratelimit/circuit.ts";
import type { SendEnd, SlowDownCause } from "../../../src/types.ts";
import { type Bench, candidateOf, createBench, LEASE_MS, OK, termsOf } from "./arbiter-support.ts";

const NOW = 1_000_000;
const CAP_MS = 60_000;

const circuitOf = (changes: Partial<Circuit>): Circuit => ({
  openUntil: 0,
  cause: "too-many-requests",
  coolOffMs: 1_000,
  probe: undefined,
  probeUntil: 0,
  ...changes,
});

describe("a circuit", () => {
  it.each<[string, Circuit | undefined, string, number]>([
    ["that never opened is closed and lets requests go", undefined, "closed", NOW],
    [
      "is open until the time named, and lets them go then",
      circuitOf({ openUntil: NOW + 1 }),
      "open",
      NOW + 1,
    ],
    ["lets one go at that very time", circuitOf({ openUntil: NOW }), "half-open", NOW],
    [
      "lets no other go while one tries",
      circuitOf({ openUntil: NOW - 5, probe: "a", probeUntil: NOW + 70 }),
      "half-open",
      NOW + 70,
    ],
    [
      "lets the next one go when the one that tried must have ended",
      circuitOf({ openUntil: NOW - 500, probe: "a", probeUntil: NOW - 1 }),
      "half-open",
      NOW,
    ],
  ])("%s", (_name, circuit, state, at) => {
    expect(stateOf(circuit, NOW)).toBe(state);
    expect(passableAt(circuit, NOW)).toBe(at);
  });
});

describe("a circuit that opens", () => {
  it.each<[string, Circuit | undefined, number | undefined, number]>([
    ["is open for a second where nobody said for how long", undefined, undefined, 1_000],
    ["is open for twice as long the next time", circuitOf({ coolOffMs: 4_000 }), undefined, 8_000],
    ["is never open for longer than the cap", circuitOf({ coolOffMs: 40_000 }), undefined, CAP_MS],
    ["is open for as long as the upstream said", undefined, 7_000, 7_000],
    [
      "goes by what the upstream said rather than by the last time",
      circuitOf({ coolOffMs: 30_000 }),
      7_000,
      7_000,
    ],
    ["is open for a second at least, whatever the upstream said", undefined, 0, 1_000],
    ["is open for the cap at most, whatever the upstream said", undefined, 3_600_000, CAP_MS],
    ["is never open for less than it was", circuitOf({ openUntil: NOW + 20_000 }), 3_000, 20_000],
  ])("%s", (_name, before, forMs, expected) => {
    const after = opened(before, { cause: "unavailable", forMs }, NOW, CAP_MS);
    expect(after.openUntil - NOW).toBe(expected);
    expect(after).toMatchObject({ cause: "unavailable", probe: undefined });
  });

  it("doubles from what it was last open for, up to the cap", () => {
    let circuit: Circuit | undefined;
    let now = NOW;
    const lengths = Array.from({ length: 8 }, () => {
      circuit = opened(circuit, { cause: "unreachable", forMs: undefined }, now, CAP_MS);
      const length = circuit.openUntil - now;
      now = circuit.openUntil;
      return length;
    });
    expect(lengths).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  });
});

const LISTINGS = candidateOf("app", "interactive", "listings");
const SOLD = candidateOf("app", "interactive", "sold");

function slowDown(cause: SlowDownCause, forMs?: number): SendEnd {
  const status = { "too-many-requests": 429, unavailable: 503, unreachable: "unreachable" } as const;
  return { ...OK, status: status[cause], slowDown: { cause, forMs } };
}

/** A budget with ample room, and one who sends and hears at once. */
function createOrigin(): Bench & { readonly hear: (candidate: typeof LISTINGS, end: SendEnd) => void } {
  const bench = createBench(termsOf({ app: 1 }, { maxCoolOffMs: CAP_MS }));
  let given = 0;
  const ask: Bench["ask"] = (candidates, now) => {
    const decision = bench.ask(candidates, now);
    if (decision.kind === "granted") given++;
    return decision;
  };
  return {
    ...bench,
    ask,
    hear(candidate, end) {
      expect(ask([candidate], NOW).kind).toBe("granted");
      bench.end(`${given}`, candidate, end, NOW);
    },
  };
}

describe("what is held back", () => {
  it.each<[SlowDownCause, number, Record<string, string>]>([
    ["too-many-requests", 1, { listings: "wait", sold: "wait" }],
    ["unavailable", 1, { listings: "wait", sold: "granted" }],
    ["unreachable", 1, { listings: "granted", sold: "granted" }],
    ["unreachable", 2, { listings: "granted", sold: "granted" }],
    ["unreachable", 3, { listings: "wait", sold: "wait" }],
  ])("after %s, %i in a row", (cause, times, expected) => {
    const origin = createOrigin();
    for (let time = 0; time < times; time++) origin.hear(LISTINGS, slowDown(cause));
    const kinds = { sold: origin.ask([SOLD], NOW).kind, listings: origin.ask([LISTINGS], NOW).kind };
    expect(kinds).toEqual(expected);
  });

  it("is nothing where an answer came between the connections refused", () => {
    const origin = createOrigin();
    for (const end of [slowDown("unreachable"), slowDown("unreachable"), OK]) origin.hear(LISTINGS, end);
    for (let time = 0; time < 2; time++) origin.hear(LISTINGS, slowDown("unreachable"));
    expect(origin.ask([LISTINGS], NOW).kind).toBe("granted");
  });

  it("is nothing after a failure that does not ask for it", () => {
    const origin = createOrigin();
    for (const status of [500, 503, "reset", "total-timeout"] as const)
      origin.hear(LISTINGS, { ...OK, status });
    expect(origin.ask([LISTINGS], NOW).kind).toBe("granted");
  });

  it("is held back for as long as the upstream said, and whoever waits is told so", () => {
    const origin = createOrigin();
    origin.hear(LISTINGS, slowDown("too-many-requests", 7_000));
    expect(origin.ask([SOLD], NOW)).toEqual({ kind: "wait", at: NOW + 7_000 });
    expect(origin.ask([SOLD], NOW + 7_000).kind).toBe("granted");
  });

  it("leaves those who want something else their turn", () => {
    const origin = createOrigin();
    origin.hear(LISTINGS, slowDown("unavailable", 7_000));
    expect(origin.ask([LISTINGS, SOLD], NOW)).toEqual({ kind: "granted", index: 1 });
  });

  it("is not for longer because of what was sent before", () => {
    const origin = createOrigin();
    origin.ask([LISTINGS], NOW);
    origin.ask([LISTINGS], NOW);
    origin.end("1", LISTINGS, slowDown("too-many-requests"), NOW);
    origin.end("2", LISTINGS, slowDown("too-many-requests"), NOW + 900);
    expect(origin.ask([SOLD], NOW + 900)).toEqual({ kind: "wait", at: NOW + 1_000 });
  });

  it("is for longer where what was sent before hears of a longer time", () => {
    const origin = createOrigin();
    origin.ask([LISTINGS], NOW);
    origin.ask([LISTINGS], NOW);
    origin.end("1", LISTINGS, slowDown("too-many-requests"), NOW);
    origin.end("2", LISTINGS, slowDown("too-many-requests", 5_000), NOW + 900);
    expect(origin.ask([SOLD], NOW + 900)).toEqual({ kind: "wait", at: NOW + 5_900 });
  });

  it("is held back for as long although something that was sent before ends well", () => {
    const origin = createOrigin();
    origin.ask([LISTINGS], NOW);
    origin.ask([LISTINGS], NOW);
    origin.end("1", LISTINGS, slowDown("too-many-requests"), NOW);
    origin.end("2", LISTINGS, OK, NOW + 900);
    expect(origin.ask([SOLD], NOW + 900)).toEqual({ kind: "wait", at: NOW + 1_000 });
  });
});

describe("one that tries when the time has passed", () => {
  const AGAIN = NOW + 1_000;

  /** The third send tries. */
  function createTrying(): Bench {
    const origin = createOrigin();
    origin.ask([LISTINGS], NOW);
    origin.hear(LISTINGS, slowDown("too-many-requests"));
    expect(origin.ask([LISTINGS], AGAIN)).toEqual({ kind: "granted", index: 0 });
    return origin;
  }

  it("goes alone: the others wait until it must have ended", () => {
    const origin = createTrying();
    expect(origin.ask([SOLD], AGAIN)).toEqual({ kind: "wait", at: AGAIN + LEASE_MS });
  });

  it("and is answered lets everyone go", () => {
    const origin = createTrying();
    origin.end("3", LISTINGS, OK, AGAIN + 50);
    for (let time = 0; time < 3; time++) expect(origin.ask([SOLD], AGAIN + 50).kind).toBe("granted");
    expect(origin.standing.circuits.size).toBe(0);
  });

  it.each<[string, SendEnd, number]>([
    ["is asked again to slow down", slowDown("too-many-requests"), 2_000],
    ["is told for how long", slowDown("too-many-requests", 5_000), 5_000],
    ["finds nobody there", slowDown("unreachable"), 2_000],
    ["breaks off", { ...OK, status: "reset" }, 2_000],
  ])("and %s holds everyone back for longer", (_name, end, forMs) => {
    const origin = createTrying();
    origin.end("3", LISTINGS, end, AGAIN + 50);
    expect(origin.ask([SOLD], AGAIN + 50)).toEqual({ kind: "wait", at: AGAIN + 50 + forMs });
  });

  it("and is never heard of is followed by another one", () => {
    const origin = createTrying();
    expect(origin.ask([SOLD], AGAIN + LEASE_MS - 1).kind).toBe("wait");
    expect(origin.ask([SOLD], AGAIN + LEASE_MS)).toEqual({ kind: "granted", index: 0 });
    expect(origin.ask([SOLD], AGAIN + LEASE_MS).kind).toBe("wait");
  });

  it("but never went lets another one try at once", () => {
    const origin = createTrying();
    giveBack(origin.standing, { id: "3", app: "app" });
    expect(origin.ask([SOLD], AGAIN)).toEqual({ kind: "granted", index: 0 });
  });

  it("is not taken for one that was sent before", () => {
    const origin = createTrying();
    origin.end("1", LISTINGS, OK, AGAIN + 10);
    expect(origin.ask([SOLD], AGAIN + 10).kind).toBe("wait");
  });

  it("for another resource leaves a resource that is held back alone", () => {
    const origin = createOrigin();
    origin.hear(LISTINGS, slowDown("unavailable"));
    expect(origin.ask([SOLD], AGAIN).kind).toBe("granted");
    origin.end("2", SOLD, OK, AGAIN);
    expect(origin.ask([LISTINGS], AGAIN).kind).toBe("granted");
    expect(origin.ask([LISTINGS], AGAIN).kind).toBe("wait");
    expect(origin.ask([SOLD], AGAIN).kind).toBe("granted");
  });
});
