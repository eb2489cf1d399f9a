/** What the conformance scenarios leave out of the upstream's caching headers. */
import { expect, it } from "vitest";

import { cachingHeadersIn } from "../../../src/upstream/caching-headers.ts";
import { NO_CACHING_HEADERS } from "../../support/entries.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { attempting, httpUpstream, LIMITS, LISTINGS, NO_DEADLINE, PAGE } from "./support.ts";

const NOW = Date.UTC(2026, 0, 15, 12);
const read = (headers: Record<string, string>) => cachingHeadersIn(headers, 0, NOW);

const WITHOUT_EFFECT = ["", "public, immutable, x-own=1", 'x="no-store"', "stale-while-revalidate"];

it.each(WITHOUT_EFFECT)("the Cache-Control %o has no effect", (value) => {
  expect(read({ "cache-control": value, vary: "Accept" })).toEqual(NO_CACHING_HEADERS);
});

it.each<Record<string, string>>([{}, { date: "now" }])(
  "Expires with the Date of %o counts from now",
  (date) => {
    expect(read({ ...date, expires: new Date(NOW + 10_000).toUTCString() }).freshForMs).toBe(10_000);
  },
);

it("the time in which the body arrives counts as age, too", async () => {
  const clock = createFakeClock();
  const baseUrl = await httpUpstream(async (response) => {
    response.write(PAGE.slice(0, 9));
    await clock.armed(LIMITS.bodyTimeoutMs, 2);
    await clock.advance(3_000);
    response.end(PAGE.slice(9));
  });
  const fetched = await attempting({ baseUrl, clock }).attempt(LISTINGS, NO_DEADLINE);
  expect(fetched.caching.ageMs).toBe(3_000);
});
