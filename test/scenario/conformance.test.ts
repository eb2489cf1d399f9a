import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { CALLERS_DIRECTIVES } from "./conformance-callers-directives.ts";
import { CONDITIONAL } from "./conformance-conditional.ts";
import { FRESHNESS } from "./conformance-freshness.ts";
import { play } from "./conformance-play.ts";
import { STALE } from "./conformance-stale.ts";
import { STORING } from "./conformance-storing.ts";
import { UPSTREAMS_DIRECTIVES } from "./conformance-upstreams-directives.ts";
import { VALIDATION } from "./conformance-validation.ts";
import type { Scenario } from "./conformance-vocabulary.ts";

const SCENARIOS: readonly Scenario[] = [
  ...STORING,
  ...FRESHNESS,
  ...VALIDATION,
  ...CONDITIONAL,
  ...CALLERS_DIRECTIVES,
  ...UPSTREAMS_DIRECTIVES,
  ...STALE,
];

describe("RFC 9111 and RFC 5861", () => {
  it.each(SCENARIOS)("$id: $title", play);
});

interface Clause {
  /** As a scenario's id begins: `9111-4.2.1`. */
  readonly name: string;
  readonly applies: string;
  readonly account: string;
  readonly scenarios: readonly string[];
}

/** The rows of the page's tables. */
const CLAUSES: readonly Clause[] = readFileSync("docs/http-conformance.md", "utf8")
  .split(/^## /m)
  .flatMap((section) => {
    const [, rfc] = /^RFC (\d+)/.exec(section) ?? [];
    return rfc === undefined
      ? []
      : [...section.matchAll(/^\| ([\d.]+) \|(.*)\|$/gm)].map((row) => clauseIn(rfc, row));
  });

function clauseIn(rfc: string, [, section = "", rest = ""]: RegExpExecArray): Clause {
  const [applies = "", account = "", scenarios = ""] = rest.split("|").map((cell) => cell.trim());
  const ids = [...scenarios.matchAll(/`([^`]+)`/g)].map(([, id = ""]) => id);
  return { name: `${rfc}-${section}`, applies, account, scenarios: ids };
}

const sectionsFrom = (rfc: string, ...sections: string[]): string[] =>
  sections.map((section) => `${rfc}-${section}`);
const below = (section: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${section}.${index + 1}`);

describe("docs/http-conformance.md", () => {
  it("goes through every clause, in order", () => {
    expect(CLAUSES.map(({ name }) => name)).toEqual([
      ...sectionsFrom("9111", "1.2.2", "2", "3", ...below("3", 5), "4", "4.1", "4.2", ...below("4.2", 4)),
      ...sectionsFrom("9111", ...below("4.3", 5), "4.4", "5.1", "5.2", ...below("5.2.1", 7)),
      ...sectionsFrom("9111", ...below("5.2.2", 10), "5.2.3", "5.2.4", "5.3", "5.4", "5.5", "6"),
      ...sectionsFrom("9111", ...below("7", 3)),
      ...sectionsFrom("5861", "3", "4"),
    ]);
  });

  it.each(CLAUSES)("$name: states whether it applies and why, and has a scenario if it does", (clause) => {
    expect(clause.applies).toMatch(/^(yes|in part|no)$/);
    expect(clause.account).toMatch(/^.{20,}\.$/);
    expect(clause.scenarios.length > 0).toBe(clause.applies !== "no");
  });

  it("names exactly the existing scenarios, each at its clause", () => {
    const named = CLAUSES.flatMap(({ name, scenarios }) => scenarios.map((id) => `${name}: ${id}`));
    const played = SCENARIOS.map(({ id }) => `${/^\d+-[\d.]+/.exec(id)?.[0]}: ${id}`);
    expect(named.toSorted()).toEqual(played.toSorted());
  });

  it("lists exactly the deviations that clauses name", () => {
    const page = readFileSync("docs/http-conformance.md", "utf8");
    const listed = [...page.matchAll(/^\d+\. \*\*.*?\(([\d., ]+)\)$/gms)].flatMap(([, sections = ""]) =>
      sections.split(", "),
    );
    const deviating = CLAUSES.filter(({ account }) => account.includes("**Deviation:**")).map(
      ({ name }) => name,
    );
    expect([...new Set(listed)].map((section) => `9111-${section}`).toSorted()).toEqual(deviating.toSorted());
  });
});
