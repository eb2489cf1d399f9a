import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { play, readStories } from "./play.ts";

const PAGE = readFileSync("docs/internals/http-conformance.md", "utf8");
const CASES = readStories(readFileSync("docs/internals/http-cases.txt", "utf8"));

it.each(CASES)("RFC 9111 and RFC 5861 $title", play);

/** The clauses that require something. */
const CLAUSES = (
  "1.2.2 2 3 3.1 3.2 3.3 3.4 3.5 4 4.1 4.2 4.2.1 4.2.2 4.2.3 4.2.4 4.3.1 4.3.2 4.3.3 4.3.4 4.3.5 4.4 5.1 5.2 " +
  "5.2.1.1 5.2.1.2 5.2.1.3 5.2.1.4 5.2.1.5 5.2.1.6 5.2.1.7 5.2.2.1 5.2.2.2 5.2.2.3 5.2.2.4 5.2.2.5 5.2.2.6 " +
  "5.2.2.7 5.2.2.8 5.2.2.9 5.2.2.10 5.2.3 5.2.4 5.3 5.4 5.5 6 7.1 7.2 7.3"
).split(" ");

/** The lines of the page's lists: the clauses of RFC 9111 in the first column, and the account of them. */
const ROWS = [...PAGE.matchAll(/^- (\d[\d., ]*): (.*)$/gm)].map(([, clauses = "", account = ""]) => ({
  clauses: clauses.split(", "),
  account,
}));

describe("docs/internals/http-conformance.md", () => {
  it("names only clauses that exist", () => {
    expect(ROWS.length).toBeGreaterThan(20);
    expect(ROWS.flatMap(({ clauses }) => clauses).filter((clause) => !CLAUSES.includes(clause))).toEqual([]);
  });

  it("says which clauses do not apply; exactly the others have cases", () => {
    const absent = new Set(
      ROWS.flatMap(({ clauses, account }) => (account.startsWith("Not at all:") ? clauses : [])),
    );
    const applying = CLAUSES.filter((clause) => !absent.has(clause)).map((clause) => `9111-${clause}`);
    const played = new Set(CASES.map(({ title }) => /^\d+-[\d.]+/.exec(title)?.[0] ?? title));
    expect([...played].toSorted()).toEqual([...applying, "5861-3", "5861-4"].toSorted());
  });
});
