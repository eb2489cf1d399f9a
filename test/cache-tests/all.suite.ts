/**
 * The public suite http-tests/cache-tests, played through a gateway: `npm run cache-tests -- DIR`, where DIR is a
 * checkout of it. `UPDATE_PAGE=1` writes the results into docs/http-conformance.md; otherwise the page must list them.
 */
import { afterAll, describe, expect, it } from "vitest";

import { listedVerdicts, notApplicable, type Verdict, verdictOn, writeVerdicts } from "./page.ts";
import { play } from "./play.ts";
import { loadSuite } from "./suite.ts";

const { CACHE_TESTS, UPDATE_PAGE } = process.env;
const groups = await loadSuite(CACHE_TESTS ?? "");
const listed = listedVerdicts();
const played = new Map<string, Verdict>();

describe.each(groups)("$id", ({ tests }) => {
  it.each(tests)("$id: $name", async (test) => {
    const verdict = notApplicable(test) ?? verdictOn(test, await play(test));
    played.set(test.id, verdict);
    expect(verdict).not.toMatch(/^defect/);
    if (UPDATE_PAGE === undefined) expect(verdict).toBe(listed.get(test.id));
  });
});

afterAll(() => {
  if (UPDATE_PAGE !== undefined) writeVerdicts(played);
});
