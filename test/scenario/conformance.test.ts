import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { play } from "./conformance-play.ts";
import { readCases } from "./conformance-text.ts";

const PAGE = readFileSync("docs/internals/http-conformance.md", "utf8");
const CASES = readCases(readFileSync("docs/internals/http-cases.txt", "utf8"));

describe("RFC 9111 and RFC 5861", () => {
  it.each(CASES)("$id: $title", play);
});

interface Clause {
  /** As the ids of its cases begin: `9111-4.2.1`. */
  readonly name: string;
  readonly applies: string;
  readonly account: string;
}

/** The rows of the page's tables. */
const CLAUSES: readonly Clause[] = PAGE.split(/^## /m).flatMap((section) => {
  const [, rfc] = /^RFC (\d+)/.exec(section) ?? [];
  const rows = rfc === undefined ? [] : section.matchAll(/^\| ([\d.]+) \| ([^|]*) \| (.*) \|$/gm);
  return [...rows].map(([, clause = "", applies = "", account = ""]) => ({
    name: `${rfc}-${clause}`,
    applies,
    account,
  }));
});

const sectionsFrom = (rfc: string, ...sections: string[]): string[] =>
  sections.map((section) => `${rfc}-${section}`);
const below = (section: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${section}.${index + 1}`);

describe("docs/internals/http-conformance.md", () => {
  it("goes through every clause, in order", () => {
    expect(CLAUSES.map(({ name }) => name)).toEqual([
      ...sectionsFrom("9111", "1.2.2", "2", "3", ...below("3", 5), "4", "4.1", "4.2", ...below("4.2", 4)),
      ...sectionsFrom("9111", ...below("4.3", 5), "4.4", "5.1", "5.2", ...below("5.2.1", 7)),
      ...sectionsFrom("9111", ...below("5.2.2", 10), "5.2.3", "5.2.4", "5.3", "5.4", "5.5", "6"),
      ...sectionsFrom("9111", ...below("7", 3)),
      ...sectionsFrom("5861", "3", "4"),
    ]);
  });

  it("says of each clause whether it applies and why, and exactly those that apply have cases", () => {
    const applying = CLAUSES.filter(({ applies }) => applies !== "no").map(({ name }) => name);
    const played = new Set(CASES.map(({ id }) => /^\d+-[\d.]+/.exec(id)?.[0] ?? id));
    expect([...played].toSorted()).toEqual(applying.toSorted());
    for (const { applies, account } of CLAUSES)
      expect([applies, account]).toEqual([
        expect.stringMatching(/^(yes|in part|no)$/),
        expect.stringMatching(/^.{20,}\.$/),
      ]);
  });

  it("lists exactly the deviations that clauses name", () => {
    const listed = [...PAGE.matchAll(/^\d+\. \*\*.*?\(([\d., ]+)\)$/gms)].flatMap(([, sections = ""]) =>
      sections.split(", "),
    );
    const deviating = CLAUSES.filter(({ account }) => account.includes("**Deviation:**")).map(
      ({ name }) => name,
    );
    expect([...new Set(listed)].map((section) => `9111-${section}`).toSorted()).toEqual(deviating.toSorted());
  });
});
