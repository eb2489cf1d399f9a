import { describe, expect, it } from "vitest";

import { createConceal } from "../../../src/query/credentials.ts";
import {
  createMeanings,
  type KnownTarget,
  type Meaning,
  type Meanings,
} from "../../../src/query/meanings.ts";
import { SEARCH } from "../../support/question.ts";

const MEANING: Meaning = { query: SEARCH, canonicalQuery: "listings?offset=0", key: "key" };
const ROUTE: KnownTarget["route"] = { kind: "search", resource: "listings" };

function setup(maxBytes = 100_000): {
  meanings: Meanings;
  secrets: string[];
  learn: (target: string) => void;
} {
  const secrets = ["s3cret-k3y"];
  const meanings = createMeanings({
    maxBytes,
    conceal: createConceal(secrets, () => 0.5),
    secretsKnown: () => secrets.length,
  });
  const learn = (target: string): void =>
    meanings.remember(target, { route: ROUTE, search: "" }, "json", MEANING);
  return { meanings, secrets, learn };
}

describe("a target that was understood", () => {
  it("keeps its meaning in each format", () => {
    const { meanings, learn } = setup();
    learn("/listings?limit=5");
    const inV2 = { ...MEANING, key: "key in v2" };
    meanings.remember("/listings?limit=5", { route: ROUTE, search: "" }, "v2", inV2);
    expect(meanings.find("/listings?limit=5")?.meanings).toEqual({ json: MEANING, v2: inV2 });
  });

  it("shares its meaning with all spellings of the same query", () => {
    const { meanings, learn } = setup();
    learn("/listings?_=1");
    const again = { ...MEANING };
    meanings.remember("/listings?_=2", { route: ROUTE, search: "" }, "json", again);
    const found = ["/listings?_=1", "/listings?_=2"].map((target) => meanings.find(target)?.meanings.json);
    expect(found[0]).toBe(MEANING);
    expect(found[1]).toBe(MEANING);
  });

  it("is found only under exactly the same text", () => {
    const { meanings, learn } = setup();
    learn("/listings?q=a");
    const others = [
      "/listings?q=A",
      "/listings?q=a&",
      "/listings?q=%61",
      "/Listings?q=a",
      "/listings?q=",
      "",
    ];
    expect(others.map((target) => meanings.find(target))).toEqual(others.map(() => undefined));
  });
});

describe("the memory", () => {
  it("is bounded, and forgets what was not asked for the longest", () => {
    const { meanings, learn } = setup(20_000);
    for (let index = 0; index < 1_000; index++) {
      learn(`/listings?_=${index}`);
      meanings.find("/listings?_=0");
    }
    const left = Array.from({ length: 1_000 }, (_, index) => index).filter(
      (index) => meanings.find(`/listings?_=${index}`) !== undefined,
    );
    expect(left[0]).toBe(0);
    expect(left.length).toBeLessThan(40);
    expect(left.slice(1)).toEqual(left.slice(1).map((_, at) => 1_000 - left.length + 1 + at));
  });

  it("never holds a target that is larger than itself", () => {
    const { meanings, learn } = setup(20_000);
    const target = `/listings?_=${"x".repeat(10_000)}`;
    learn(target);
    expect(meanings.find(target)).toBeUndefined();
  });
});

describe("a secret", () => {
  it.each([
    "/listings?q=s3cret-k3y",
    "/listings?key=s3cret-k3y",
    "/listings?q=s3cret%2Dk3y",
    "/listings?s3cret-k3y",
    // Not decodable as a whole, so nobody knows what is in it.
    "/listings?key=s3cret%2Dk3y&_=%ZZ",
  ])("in %s is not remembered", (target) => {
    const { meanings, learn } = setup();
    learn(target);
    expect(meanings.find(target)).toBeUndefined();
  });

  it("that is new makes it forget everything, because an earlier target may contain it", () => {
    const { meanings, secrets, learn } = setup();
    learn("/listings?q=n3xt-k3y");
    expect(meanings.find("/listings?q=n3xt-k3y")).toBeDefined();
    secrets.push("n3xt-k3y");
    expect(meanings.find("/listings?q=n3xt-k3y")).toBeUndefined();
  });
});
