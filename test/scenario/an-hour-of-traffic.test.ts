/** An hour of traffic under a tight budget, with an upstream that now and then fails: no answer is older than the rules allow. */
import { randomInt } from "node:crypto";

import { expect, it } from "vitest";

import { cacheStatus, type Reply } from "../support/ask.ts";
import { createRandom } from "../support/random.ts";
import { LISTING_ID, startGateway } from "../support/gateway.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** What each kind may be: fresh, given while it is refreshed, and given where there is no new one. In seconds. */
const KINDS = {
  listings: { fresh: 120, updating: 60, stale: 900 },
  sold: { fresh: 240, updating: 120, stale: 600 },
  areas: { fresh: 1_800, updating: 600, stale: 600 },
  records: { fresh: 60, updating: 30, stale: 1_200 },
} as const;
type Kind = keyof typeof KINDS;
const MAX_AGE_EVER = 1_100;

const each = (of: "fresh" | "updating" | "stale"): string =>
  Object.entries(KINDS)
    .map(([kind, times]) => `${kind}=${times[of]}s`)
    .join(",");

const URLS: readonly { readonly kind: Kind; readonly path: string }[] = [
  ...Array.from(
    { length: 14 },
    (_, n) => ({ kind: "listings", path: `/listings?areaId=76&limit=2&offset=${n}` }) as const,
  ),
  ...Array.from(
    { length: 8 },
    (_, n) => ({ kind: "sold", path: `/sold?areaId=1&limit=2&offset=${n}` }) as const,
  ),
  { kind: "areas", path: "/areas?q=Nacka" },
  { kind: "records", path: `/listings/${LISTING_ID}` },
];

/** The oldest an answer may be, by how it came. */
function bound(kind: Kind, reply: Reply): number {
  const { fresh, updating, stale } = KINDS[kind];
  const { detail, ttl } = cacheStatus(reply);
  const life = Math.min(fresh, MAX_AGE_EVER);
  if (Number(ttl) > 0) return life;
  if (detail === "stale-while-revalidate") return Math.min(life + updating, MAX_AGE_EVER);
  return Math.min(life + Math.max(stale, updating), MAX_AGE_EVER);
}

it("in an hour of traffic, no answer is older than its limits or has a wrong Age", async () => {
  const seed = randomInt(2 ** 31);
  const random = createRandom(seed);
  const clock = createSteppingClock();
  const gateway = await startGateway({
    clock,
    env: {
      BUDGET: "10/2m",
      CACHE_TTL: each("fresh"),
      CACHE_STALE_WHILE_REVALIDATE: each("updating"),
      CACHE_STALE_IF_ERROR: each("stale"),
      BUDGET_MAX_WAIT: "1s",
    },
    settings: `upstream: { retryDelay: 1ms }
cache: { maxWaitForFresh: 900ms, maxAgeEver: ${MAX_AGE_EVER}s, negativeTtl: 10s }`,
  });
  const outcomes = new Map<string, number>();
  /** Every instant there was; what is shown must be from one of them. */
  const instants = new Set<number>();
  const began = clock.now();
  let changesAt = began;

  while (clock.now() < began + 60 * MINUTE) {
    clock.pass(random.between(5, 30) * SECOND);
    instants.add(clock.now());
    if (clock.now() >= changesAt) {
      gateway.sandbox.revise();
      gateway.sandbox.faults.clear();
      if (random.between(1, 4) === 1) gateway.sandbox.faults.add({ status: random.pick([500, 503, 403]) });
      changesAt = clock.now() + random.between(1, 4) * MINUTE;
    }
    // The first ones are asked for more often.
    const { kind, path } =
      URLS[Math.floor(URLS.length * (random.between(0, 999) / 1000) ** 2)] ?? random.pick(URLS);
    const reply = await gateway.get(path);
    const status = cacheStatus(reply);
    // The clock does not move until the background refreshes have ended.
    if (status["detail"] !== "memory") await gateway.landed();
    const how =
      reply.status === 200
        ? status["hit"] === true
          ? `hit ${String(status["detail"])}`
          : "fetched"
        : String(reply.status);
    outcomes.set(how, (outcomes.get(how) ?? 0) + 1);
    if (reply.status !== 200) {
      expect([seed, path, reply.status]).toEqual([seed, path, expect.toBeOneOf([502, 503, 504])]);
      continue;
    }
    const age = Number(reply.headers.age);
    expect(age, `seed ${seed}: ${path}, ${how}`).toBeLessThanOrEqual(bound(kind, reply));
    expect(instants.has(clock.now() - age * SECOND), `seed ${seed}: ${path} is ${age} s old`).toBe(true);
  }

  // The hour was no easy one: there were answers of every kind, and more than the budget allowed.
  const kinds = [...outcomes.keys()].join(" ");
  for (const kind of ["hit memory", "hit stale-while-revalidate", "fetched"])
    expect(kinds, `seed ${seed}`).toContain(kind);
  expect(gateway.sandbox.requests().length).toBeLessThanOrEqual(10 * 31);
});
