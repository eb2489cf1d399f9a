/** What request targets mean: targets.txt, and what a table cannot say. */
import { describe, expect, it } from "vitest";

import { upstreamTarget } from "../../../src/query/write-query.ts";
import { createRouter } from "../../../src/query/route.ts";
import { splitTarget } from "../../../src/query/wire.ts";
import { sectionsOf, unescaped } from "../../support/table.ts";
import { parsedTarget, PASSES_NOTHING, understood, type Understanding } from "../../support/understood.ts";

/** The outcome as the table writes it. */
function outcomeOf(target: string, options: Understanding): string {
  const text = understood(target, options);
  const { query, faults } = parsedTarget(target, options) ?? {};
  if (faults !== undefined) {
    const names = faults.map(({ parameter, hint }) => (hint ? `${parameter} (${hint})` : parameter));
    return `refused: ${names.join(", ")}`;
  }
  if (query?.kind === "streamed") return `streamed: ${upstreamTarget(query, "")}`;
  const route = createRouter({ ...PASSES_NOTHING, ...options })(splitTarget(target).path);
  return route.kind === "unknown" && route.near ? `${text}; near ${route.near}` : text;
}

describe.each(sectionsOf(new URL("targets.txt", import.meta.url)))("$title", ({ text, rows }) => {
  const options: Understanding = JSON.parse(/^with (.*)$/m.exec(text)?.[1] ?? "{}");
  it.each(rows)("%s", (target, outcome) => {
    expect(outcomeOf(unescaped(target), options)).toBe(outcome);
  });
});

it("a number of any length is kept, unless it has an upper bound", () => {
  const digits = "9".repeat(400);
  expect(understood(`/areas?lat=0&lng=0&limit=${digits}`)).toBe("refused: limit");
  expect(understood(`/sold?minRooms=${digits}`)).toBe(`sold?minRooms=${digits}&offset=0`);
});
