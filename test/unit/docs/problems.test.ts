import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { Problem, PROBLEM_CODES, problemBody } from "../../../src/errors.ts";

const page = readFileSync("docs/problems.md", "utf8");

/** The items of the lists: code, status, when. */
const ROWS = [...page.matchAll(/^- `([^`]+)`, (\d+): ([^]+?)(?=\n-|\n\n|\n$)/gm)].map(
  ([, code = "", ...cells]): [string, ...string[]] => [code, ...cells],
);

describe("docs/problems.md", () => {
  it("has exactly one item for each problem", () => {
    expect(ROWS.map(([code]) => code).toSorted()).toEqual(PROBLEM_CODES.toSorted());
  });

  it.each(PROBLEM_CODES)("tells the truth of %s", (code) => {
    const { type, status }: Record<string, unknown> = JSON.parse(problemBody(new Problem(code)).toString());
    const row = ROWS.find(([of]) => of === code);
    expect(row).toEqual([code, String(status), expect.stringMatching(/^.{20,}/)]);
    expect(page).toContain(`\`${String(type).slice(0, -code.length)}\``);
  });
});
