import { describe, expect, it } from "vitest";

import {
  createKnownTargets,
  knownTargetsBytes,
  type KnownTarget,
  type ParsedQuery,
  type KnownTargets,
} from "../../../src/query/known-targets.ts";
import { SEARCH } from "../../support/question.ts";

const PARSED: ParsedQuery = { query: SEARCH, canonicalQuery: "listings?offset=0", key: "key" };
const ROUTE: KnownTarget["route"] = { kind: "search", resource: "listings" };

function setup(maxBytes = 100_000): { targets: KnownTargets; learn: (target: string) => void } {
  const targets = createKnownTargets(maxBytes);
  const learn = (target: string): void =>
    targets.remember(target, { route: ROUTE, search: "" }, "json", PARSED);
  return { targets, learn };
}

describe("a target that was parsed", () => {
  it("keeps its query for each format", () => {
    const { targets, learn } = setup();
    learn("/listings?limit=5");
    const inV2 = { ...PARSED, key: "key in v2" };
    targets.remember("/listings?limit=5", { route: ROUTE, search: "" }, "v2", inV2);
    expect(targets.find("/listings?limit=5")?.parsed).toEqual({ json: PARSED, v2: inV2 });
  });

  it("is found only under exactly the same text", () => {
    const { targets, learn } = setup();
    learn("/listings?q=a");
    const others = [
      "/listings?q=A",
      "/listings?q=a&",
      "/listings?q=%61",
      "/Listings?q=a",
      "/listings?q=",
      "",
    ];
    expect(others.map((target) => targets.find(target))).toEqual(others.map(() => undefined));
  });
});

describe("the memory for targets", () => {
  it("is 16 MiB, and a sixteenth of a cache of more than 256 MiB", () => {
    const MIB = 1024 * 1024;
    expect([64, 256, 1_024].map((cacheMib) => knownTargetsBytes(cacheMib * MIB) / MIB)).toEqual([16, 16, 64]);
  });

  it("is bounded, and forgets the least recently used targets", () => {
    const { targets, learn } = setup(20_000);
    for (let index = 0; index < 1_000; index++) {
      learn(`/listings?_=${index}`);
      targets.find("/listings?_=0");
    }
    const left = Array.from({ length: 1_000 }, (_, index) => index).filter(
      (index) => targets.find(`/listings?_=${index}`) !== undefined,
    );
    expect(left[0]).toBe(0);
    expect(left.length).toBeLessThan(40);
    expect(left.slice(1)).toEqual(left.slice(1).map((_, at) => 1_000 - left.length + 1 + at));
  });

  it("does not keep a target that is larger than the memory", () => {
    const { targets, learn } = setup(20_000);
    const target = `/listings?_=${"x".repeat(10_000)}`;
    learn(target);
    expect(targets.find(target)).toBeUndefined();
  });
});
