import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { Problem, PROBLEM_CODES, problemBody } from "../../../src/errors.ts";

const page = readFileSync("docs/problems.md", "utf8");

describe("docs/problems.md", () => {
  it("has exactly one section for each problem", () => {
    expect(page.match(/(?<=^## )\S+$/gm)).toEqual(PROBLEM_CODES);
  });

  it.each(PROBLEM_CODES)("tells the truth of %s", (code) => {
    const [, section = ""] = new RegExp(`^## ${code}$(.*?)(?=^## |$(?![^]))`, "ms").exec(page) ?? [];
    const { type, status, title, remedy }: Record<string, unknown> = JSON.parse(
      problemBody(new Problem(code)).toString(),
    );
    for (const row of [
      `| type | \`${String(type)}\` |`,
      `| status | ${String(status)} |`,
      `| title | ${String(title)} |`,
      `| what to do | ${String(remedy)} |`,
    ]) {
      expect(section).toContain(row);
    }
    expect(section).toMatch(/\| when \| .{20,} \|/);
  });
});
