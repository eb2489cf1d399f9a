import { describe, expect, it } from "vitest";

import { decide, isFailureOfUpstream, mayReplace, wasRefusedHere } from "../../../src/cache/policy.ts";
import { Problem, PROBLEM_CODES } from "../../../src/errors.ts";
import { NO_DIRECTIVES } from "../../../src/types.ts";
import type { Query } from "../../../src/query/query.ts";
import { entryWith } from "../../support/entries.ts";
import { SEARCH } from "../../support/question.ts";
import { rulesWith } from "../../support/rules.ts";

const REFUSALS = ["quota-exceeded", "temporary-reduced-capacity"];
const FAILURES = [
  "upstream-authentication-failed",
  "upstream-error",
  "upstream-unreachable",
  "upstream-invalid-response",
  "upstream-unavailable",
  "upstream-timeout",
];

describe("a stale entry", () => {
  const stale = entryWith("", 1_000, { freshUntil: 2_000, keepUntil: 99_000 });
  const rules = rulesWith({
    maxAgeEverMs: 10_000,
    staleIfErrorMs: { listings: 50_000, sold: 1_000, areas: 0, images: 2, records: 3 },
  });
  const RECORD: Query = { kind: "record", resource: "listings", serviceId: "7", extras: [] };
  const IMAGE: Query = { kind: "image", resource: "images", serviceId: "7", width: 1, height: 1, extras: [] };

  function isGivenInPlaceOf(failed: Problem, query: Query = SEARCH, now = 3_000, entry = stale): boolean {
    const asked = { query, directives: NO_DIRECTIVES, mayForceRefresh: false };
    const upstream = { failed, budgetLeft: () => 1, random: 0 };
    return decide({ entry, isPurged: false }, asked, upstream, rules, now).kind === "serve";
  }

  it("is served instead of a refusal by the gateway or a failure of the upstream", () => {
    const replaced = PROBLEM_CODES.filter((code) => isGivenInPlaceOf(new Problem(code)));
    expect(replaced).toEqual([...FAILURES, ...REFUSALS, "deadline-exceeded"]);
  });

  it("is served instead of any other refusal by the gateway", () => {
    const isGiven = (refusedHere: boolean): boolean =>
      isGivenInPlaceOf(new Problem("internal-error", { refusedHere }));
    expect([isGiven(true), isGiven(false)]).toEqual([true, false]);
  });

  it.each<[string, Query, number[]]>([
    ["sold", { ...SEARCH, resource: "sold" }, [0, 1, 2, 3, 4, 1_000]],
    ["areas", { ...SEARCH, resource: "areas" }, []],
    ["a thumbnail", IMAGE, [0, 1, 2]],
    ["one record", RECORD, [0, 1, 2, 3]],
  ])("of %s is served for staleIfError of its kind", (_name, query, given) => {
    const refused = new Problem("quota-exceeded");
    const sinceMs = [0, 1, 2, 3, 4, 1_000, 1_001];
    expect(sinceMs.filter((ms) => isGivenInPlaceOf(refused, query, 2_000 + ms))).toEqual(given);
  });

  it("is also served if it is a 404 or 400", () => {
    const given = ([200, 404, 400] as const).filter((status) =>
      isGivenInPlaceOf(new Problem("upstream-error"), SEARCH, 2_000, { ...stale, status }),
    );
    expect(given).toEqual([200, 404, 400]);
  });
});

describe("a problem", () => {
  it("is a refusal, a failure of the upstream, or neither", () => {
    const problems = PROBLEM_CODES.map((code) => new Problem(code));
    expect(problems.filter(wasRefusedHere).map(({ code }) => code)).toEqual(REFUSALS);
    expect(problems.filter(isFailureOfUpstream).map(({ code }) => code)).toEqual(FAILURES);
  });

  it("about the upstream is a refusal if nothing was sent", () => {
    const problem = new Problem("upstream-unavailable", { refusedHere: true });
    expect([wasRefusedHere(problem), isFailureOfUpstream(problem)]).toEqual([true, false]);
  });
});

describe("an entry", () => {
  const entry = entryWith("", 1_000);

  it.each([
    ["nothing", undefined, true],
    ["an older one", entryWith("", 999), true],
    ["itself", entry, true],
    ["one of the same instant", entryWith("", 1_000), true],
    ["a newer one", entryWith("", 1_001), false],
    ["a newer one that is stale", entryWith("", 1_001, { freshUntil: 1_001 }), false],
  ])("may replace %s: %s", (_name, stored, may) => {
    expect(mayReplace(stored, entry)).toBe(may);
  });
});
