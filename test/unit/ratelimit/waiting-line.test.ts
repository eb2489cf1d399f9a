import { describe, expect, it } from "vitest";

import type { Wish } from "../../../src/ratelimit/allowance.ts";
import { aheadOf } from "../../../src/ratelimit/queued.ts";
import { createWaitingLine, type Place, type WaitingLine } from "../../../src/ratelimit/waiting-line.ts";
import type { Priority } from "../../../src/types.ts";
import type { Resource } from "../../../src/interface/resources.ts";

interface Named {
  readonly name: string;
  readonly wishes: readonly Wish[];
}

const wishOf = (app: string, priority: Priority = "interactive", resource: Resource = "listings"): Wish => ({
  app,
  priority,
  resource,
  cause: "miss",
  query: "",
});

const named = (name: string, ...wish: Parameters<typeof wishOf>): Named => ({
  name,
  wishes: [wishOf(...wish)],
});

/** One whom several apps wait for. */
const shared = (name: string, ...apps: string[]): Named => ({ name, wishes: apps.map((app) => wishOf(app)) });

function lineOf(...waiters: Named[]): WaitingLine<Named> {
  const line = createWaitingLine<Named>();
  for (const waiter of waiters) line.stand(waiter, waiter.wishes);
  return line;
}

const namesOf = (places: readonly Place<Named>[]): string[] => places.map(({ waiter }) => waiter.name);
const anyone = (): boolean => true;
const evenly = (): number => 1;

describe("a line of those who wait", () => {
  it("offers the first of each kind, in the order in which they came", () => {
    const line = lineOf(
      named("b1", "b"),
      named("a1", "a"),
      named("b2", "b"),
      named("a background", "a", "background"),
      named("a2", "a"),
      named("a sold", "a", "interactive", "sold"),
    );
    expect(namesOf(line.heads(anyone))).toEqual(["b1", "a1", "a background", "a sold"]);
  });

  it("offers the next one where the first has left, in the order in which that one came", () => {
    const first = named("b1", "b");
    const line = lineOf(first, named("a1", "a"), named("b2", "b"));
    expect(line.leave(first)).toBe(true);
    expect(namesOf(line.heads(anyone))).toEqual(["a1", "b2"]);
  });

  it("offers nobody who may not go yet", () => {
    const line = lineOf(named("later", "a", "background"), named("now", "a"));
    expect(namesOf(line.heads((priority) => priority === "interactive"))).toEqual(["now"]);
  });

  it("says whether one who joins is the first of a kind, and whether one who leaves was there", () => {
    const line = createWaitingLine<Named>();
    const [one, other, elsewhere] = [named("1", "a"), named("2", "a"), named("3", "a", "refresh")];
    const join = (waiter: Named): boolean => line.stand(waiter, waiter.wishes);
    expect([join(one), join(other), join(elsewhere)]).toEqual([true, false, true]);
    expect(line.has(one)).toBe(true);
    expect([line.leave(one), line.leave(one)]).toEqual([true, false]);
    expect([line.has(one), line.has(other)]).toEqual([false, true]);
    line.leave(other);
    expect(join(one)).toBe(true);
  });

  it("is as long as those who wait, by priority, and empty when all have left", () => {
    const waiters = [named("1", "a"), named("2", "b"), named("3", "b", "background", "sold")];
    const line = lineOf(...waiters);
    expect([line.length("interactive"), line.length("background"), line.length("refresh")]).toEqual([
      2, 1, 0,
    ]);
    expect(line.all()).toEqual(waiters);
    expect(line.isEmpty()).toBe(false);
    for (const waiter of waiters) line.leave(waiter);
    expect(line.isEmpty()).toBe(true);
    expect(line.heads(anyone)).toEqual([]);
  });
});

describe("one who stands in the lines of several apps", () => {
  it("is offered wherever it is the first, and is gone from all with the one place that it takes", () => {
    const [both, own] = [shared("both", "b", "a"), named("a1", "a")];
    const line = lineOf(named("b1", "b"), both, own);
    const heads = line.heads(anyone);
    expect(heads.map(({ waiter, wish }) => `${waiter.name} as ${wish.app}`)).toEqual([
      "b1 as b",
      "both as a",
    ]);
    line.leave(both);
    expect(heads.map(line.holds)).toEqual([true, false]);
    expect(namesOf(line.heads(anyone))).toEqual(["b1", "a1"]);
    expect([line.has(both), line.has(own)]).toEqual([false, true]);
  });

  it("keeps its place where it stays, and comes last where it is new", () => {
    const [moving, other] = [named("moving", "a"), named("other", "b")];
    const line = lineOf(moving, named("a2", "a"), other);
    const [before] = line.heads(anyone);
    expect(line.stand(moving, [wishOf("a"), wishOf("b")])).toBe(false);
    expect(line.heads(anyone)[0]).toBe(before);
    expect(before && line.holds(before)).toBe(true);
    expect(line.leave(other)).toBe(true);
    expect(namesOf(line.heads(anyone))).toEqual(["moving", "moving"]);
    // Its first app's callers have left.
    expect(line.stand(moving, [wishOf("b")])).toBe(true);
    expect(before && line.holds(before)).toBe(false);
    expect(line.kindsOf(moving)).toMatchObject([{ app: "b", priority: "interactive", resource: "listings" }]);
    expect(namesOf(line.heads(anyone))).toEqual(["a2", "moving"]);
    expect(line.stand(moving, [wishOf("b", "background")])).toBe(true);
    expect(line.kinds().map(({ app, priority }) => `${app} ${priority}`)).toEqual([
      "a interactive",
      "b background",
    ]);
  });

  it("counts once: for an app that it stands for too as one of that app's, for others as its first app's", () => {
    const [both, later] = [shared("both", "b", "a"), shared("later", "b", "c", "a")];
    const line = lineOf(named("a1", "a"), both, later);
    const lengths = (viewpoint?: Parameters<typeof line.queued>[0]): unknown =>
      Object.fromEntries(line.queued(viewpoint).map(({ app, length }) => [app, length]));
    expect(line.length("interactive")).toBe(3);
    expect(line.all()).toHaveLength(3);
    expect(lengths()).toEqual({ a: 1, b: 2, c: 0 });
    expect(lengths({ app: "elsewhere" })).toEqual({ a: 1, b: 2, c: 0 });
    expect(lengths({ app: "b" })).toEqual({ a: 1, b: 2, c: 0 });
    expect(lengths({ app: "a" })).toEqual({ a: 3, b: 0, c: 0 });
    expect(lengths({ app: "c" })).toEqual({ a: 1, b: 1, c: 1 });
    expect(lengths({ app: "a", without: both })).toEqual({ a: 2, b: 0, c: 0 });
    expect(lengths({ app: "c", without: both })).toEqual({ a: 1, b: 0, c: 1 });
    // Its first app's callers have left: it counts as the next one's.
    line.stand(later, [wishOf("c"), wishOf("a")]);
    expect(lengths()).toEqual({ a: 1, b: 1, c: 1 });
    for (const waiter of line.all()) line.leave(waiter);
    expect([line.isEmpty(), line.length("interactive"), line.kinds()]).toEqual([true, 0, []]);
  });
});

describe("how many go before one who would join", () => {
  const many = (count: number, ...wish: Parameters<typeof wishOf>): Named[] =>
    Array.from({ length: count }, (_, index) => named(`${index}`, ...wish));

  it.each<[string, Named[], Wish, { ahead: number; ownAhead: number }]>([
    ["is nobody where nobody waits", [], wishOf("a"), { ahead: 0, ownAhead: 0 }],
    ["is all of its own app", many(5, "a"), wishOf("a"), { ahead: 5, ownAhead: 5 }],
    [
      "is all of its own app, whatever they want",
      [...many(2, "a"), ...many(3, "a", "interactive", "sold")],
      wishOf("a"),
      { ahead: 5, ownAhead: 5 },
    ],
    [
      "is one of another app, with which it takes turns",
      many(9, "b"),
      wishOf("a"),
      { ahead: 1, ownAhead: 0 },
    ],
    [
      "is as many of another app as of its own, and one more",
      [...many(3, "a"), ...many(9, "b")],
      wishOf("a"),
      { ahead: 7, ownAhead: 3 },
    ],
    [
      "is no more of another app than there are",
      [...many(3, "a"), ...many(2, "b")],
      wishOf("a"),
      { ahead: 5, ownAhead: 3 },
    ],
    ["is nobody with less precedence", many(4, "a", "background"), wishOf("a"), { ahead: 0, ownAhead: 0 }],
    [
      "is everybody of its app with more precedence",
      [...many(4, "a"), ...many(2, "a", "background"), ...many(8, "a", "prefetch")],
      wishOf("a", "background"),
      { ahead: 6, ownAhead: 6 },
    ],
  ])("%s", (_name, waiters, wish, expected) => {
    expect(aheadOf(wish, lineOf(...waiters).queued(), evenly)).toEqual(expected);
  });

  it("is one less without one that waits, be it of its own app or another, or of no consequence", () => {
    const [own, others, later] = [named("own", "a"), named("others", "b"), named("later", "a", "background")];
    const line = lineOf(own, named("2", "a"), others, later);
    const without = (waiter?: Named): unknown =>
      aheadOf(wishOf("a"), line.queued({ app: "a", ...(waiter && { without: waiter }) }), evenly);
    for (const nobody of [undefined, later, named("gone", "a")])
      expect(without(nobody)).toEqual({ ahead: 3, ownAhead: 2 });
    expect([without(own), without(others)]).toEqual([
      { ahead: 2, ownAhead: 1 },
      { ahead: 2, ownAhead: 2 },
    ]);
  });

  it("is of another app in proportion to its weight", () => {
    const line = lineOf(...many(1, "a"), ...many(90, "heavy"), ...many(90, "light"));
    const weights: Record<string, number> = { a: 2, heavy: 5, light: 1 };
    // While it is served twice, the heavy app is served five times and the light one once.
    expect(aheadOf(wishOf("a"), line.queued(), (app) => weights[app] ?? 1)).toEqual({
      ahead: 7,
      ownAhead: 1,
    });
  });
});
