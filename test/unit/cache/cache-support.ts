/** The cache stage with all that is behind it, but for the upstream, which a test makes up. */
import { expect } from "vitest";

import { type Answer, Cache } from "../../../src/cache/cache.ts";
import { createChecks } from "../../../src/cache/lifetimes/checks.ts";
import { createFailures } from "../../../src/cache/recent-failures.ts";
import type { CacheRules } from "../../../src/cache/ttl.ts";
import { createMemoryStore } from "../../../src/cache/store/memory.ts";
import { createLifetimes } from "../../../src/cache/lifetimes/lifetimes.ts";
import { createLoad, type LoadedEntry } from "../../../src/cache/load.ts";
import { createRefresh } from "../../../src/cache/refresh.ts";
import { Tiers } from "../../../src/cache/store/tiered.ts";
import { createLeadOrFollow, type Claims } from "../../../src/singleflight/replicas.ts";
import { createFlights, type FlightResult } from "../../../src/singleflight/flight.ts";
import type { Cause } from "../../../src/telemetry/events.ts";
import type { Validators } from "../../../src/upstream/caching-headers.ts";
import type { Fetched } from "../../../src/upstream/verdict.ts";
import type { GatewayRequest } from "../../../src/query/question.ts";
import type { Waiting } from "../../../src/ratelimit/throttled.ts";
import { cacheKey } from "../../../src/query/key.ts";
import { fetchedWith } from "../../support/entries.ts";
import { createFakeClock, type FakeClock } from "../../support/fake-clock.ts";
import { questionWith, requestWith } from "../../support/question.ts";
import { rulesWith } from "../../support/rules.ts";

export const RULES = rulesWith();
export const LIFETIME_MS = RULES.ttlMs.listings;
export const KEY = cacheKey("json", "listings?offset=0");

export const FOUND = fetchedWith({ recordIds: ["4711"] });

/** How the upstream was asked. */
interface Asking {
  readonly waiting: Waiting;
  readonly cause: Cause;
  readonly cached: Validators | undefined;
}

export interface Setup {
  readonly clock: FakeClock;
  readonly tiers: Tiers;
  readonly ask: (text?: string, changes?: Partial<GatewayRequest>) => Promise<Answer>;
  readonly fetches: () => number;
  readonly asked: readonly Asking[];
}

export interface SetupOptions {
  readonly claims?: Claims;
  readonly rules?: Partial<CacheRules>;
}

/** @param upstream its answer to each request */
export function setup(
  upstream: (nth: number, asking: Asking) => Promise<Fetched>,
  { claims, rules = {} }: SetupOptions = {},
): Setup {
  const clock = createFakeClock();
  const asked: Asking[] = [];
  const tiers = new Tiers({ memory: createMemoryStore(80_000, clock), store: undefined, clock });
  const failures = createFailures();
  const ruling = (): CacheRules => ({ ...RULES, ...rules });
  const lifetimes = createLifetimes(() => "fixed");
  const checks = createChecks({ budgetLeft: () => 1, failed: () => expect.unreachable() });
  const load = createLoad({
    tiers,
    joinFlight: createFlights<FlightResult<LoadedEntry> | undefined>(clock).join,
    leadOrFollow: createLeadOrFollow<LoadedEntry>(claims),
    fetch: (_question, waiting, asking) =>
      upstream(asked.push({ waiting, ...asking }), { waiting, ...asking }),
    failures,
    rules: ruling,
    lifetimes,
    checks,
    replicas: () => 1,
    clock,
    observer: { refreshed: () => undefined },
  });
  const refresh = createRefresh({
    totalTimeoutMs: 8_000,
    load,
    failures,
    clock,
    observer: { error: (message) => expect.unreachable(message) },
  });
  const { answer: cache } = new Cache({
    tiers,
    load,
    refresh,
    failures,
    checks,
    lifetimes,
    isCoolingOff: () => false,
    rules: ruling,
    clock,
  });
  return {
    clock,
    tiers,
    ask: (text, changes) => cache(questionWith(requestWith(clock.now(), changes), text)),
    fetches: () => asked.length,
    asked,
  };
}
