/**
 * Lifetimes and ages of stored answers: RFC 9111, sections 4.2, 5.1 and 5.3 to 5.5.
 */
import type { Scenario, Settings } from "./conformance-vocabulary.ts";

/** Fresh for 300 s by default. */
const PATH = "/listings?areaId=76&limit=20";
const MISS = "fwd=miss; stored; ttl=300";

/** What has expired is not given while it is refreshed, so that it shows at once. */
const STRICT: Settings = { cache: { staleWhileRevalidate: { listings: "0s" } } };

export const FRESHNESS: readonly Scenario[] = [
  {
    id: "9111-4.2-fresh-until",
    title: "an answer is fresh while its age is less than its lifetime",
    settings: STRICT,
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 299.999 },
      { ask: PATH, gets: { cache: "hit; ttl=0; detail=memory", age: 299, maxAge: 0 } },
      { pass: 0.001 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=300", age: 0 } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.2-zone",
    title: "a date in another zone than GMT is not a date",
    steps: [
      { upstream: { headers: { expires: { secondsFromNow: 86_400, zone: "PST" } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-4.2.1-s-maxage-first",
    title: "s-maxage overrides max-age and Expires",
    steps: [
      {
        upstream: {
          headers: { "cache-control": "max-age=10, s-maxage=40", expires: { secondsFromNow: 20 } },
        },
      },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=40" } },
    ],
  },
  {
    id: "9111-4.2.1-max-age-second",
    title: "max-age overrides Expires",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=50", expires: { secondsFromNow: 20 } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=50" } },
    ],
  },
  {
    id: "9111-4.2.1-expires-by-their-clock",
    title: "Expires counts from the upstream's Date",
    steps: [
      { upstream: { headers: { expires: { secondsFromNow: 20 } }, fault: { clockSkewSeconds: -100 } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120" } },
    ],
  },
  {
    id: "9111-4.2.1-given-twice",
    title: "the first of two equal directives counts",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=30, max-age=90" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30" } },
    ],
  },
  {
    id: "9111-4.2.1-nonsense",
    title: "a lifetime that is not a number is 0",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=soon", expires: { secondsFromNow: 90 } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-4.2.1-conflict",
    title: "the stricter of two conflicting directives counts",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "max-age=90, no-cache" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0" } },
      { asked: 2, has: ["if-none-match"] },
    ],
  },
  {
    id: "9111-4.2.2-settings",
    title: "without a lifetime from the upstream, the settings give one for each kind of answer",
    settings: { cache: { ttl: { listings: "2m", areas: "3h" } } },
    steps: [
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120" } },
      { ask: "/areas?q=Nacka", gets: { cache: "fwd=miss; stored; ttl=10800" } },
    ],
  },
  {
    id: "9111-4.2.2-never-longer",
    title: "the settings can shorten the upstream's lifetime, but not lengthen it",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=3600" } } },
      { ask: PATH, gets: { cache: MISS, maxAge: 300 } },
      { upstream: { headers: { "cache-control": "max-age=7" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=7", maxAge: 7 } },
    ],
  },
  {
    id: "9111-4.2.2-agreed-otherwise",
    title: "with cache.honourUpstream: false, the upstream's directives are ignored",
    settings: { cache: { honourUpstream: false } },
    steps: [
      { upstream: { headers: { "cache-control": "no-store, max-age=7, must-revalidate" } } },
      { ask: PATH, gets: { cache: MISS } },
      { pass: 310 },
      { ask: PATH, gets: { cache: "hit; ttl=-10; detail=stale-while-revalidate" } },
    ],
  },
  {
    id: "9111-4.2.3-age-value",
    title: "the upstream's Age is part of the age and reduces the lifetime",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=200", age: "80" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120", age: 80, maxAge: 120 } },
      { pass: 20 },
      { ask: PATH, gets: { cache: "hit; ttl=100; detail=memory", age: 100, maxAge: 100 } },
    ],
  },
  {
    id: "9111-4.2.3-response-delay",
    title: "an answer is at least as old as its request",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=200" } } },
      { ask: PATH, upstreamTakes: 3, gets: { cache: "fwd=miss; stored; ttl=197", age: 3, maxAge: 197 } },
    ],
  },
  {
    id: "9111-4.2.3-apparent-age",
    title: "the upstream's Date does not count for the age",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=200" }, fault: { clockSkewSeconds: -100 } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=200", age: 0 } },
    ],
  },
  {
    id: "9111-4.2.3-confirmed",
    title: "the age counts from the last confirmation by the upstream",
    settings: STRICT,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, gets: { cache: MISS } },
      { pass: 400 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=300", age: 0 } },
      { pass: 5 },
      { ask: PATH, gets: { cache: "hit; ttl=295; detail=memory", age: 5 } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.2.4-disconnected",
    title: "a stale answer is served if the upstream cannot be reached, for as long as the settings say",
    settings: { cache: { staleIfError: { listings: "1h" } } },
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 3900 },
      { upstream: { fault: { disconnect: true } } },
      {
        ask: PATH,
        gets: {
          cache: "hit; ttl=-3600; detail=upstream-unreachable",
          age: 3900,
          maxAge: 0,
          sameBodyAs: "first",
        },
      },
      { pass: 0.001 },
      { ask: PATH, gets: { status: 502, problem: "upstream-unreachable" } },
    ],
  },
  {
    id: "9111-4.2.4-may-not-ask",
    title: "a stale answer is served if the budget is spent",
    env: { BUDGET: "1/1d" },
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 400 },
      {
        ask: PATH,
        gets: { cache: "hit; ttl=-100; detail=temporary-reduced-capacity", age: 400, sameBodyAs: "first" },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-4.2.4-not-otherwise",
    title: "otherwise the gateway asks the upstream and waits for its answer",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 360 },
      { revise: true },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=300", age: 0, otherBodyThan: "first" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.2.4-oldest",
    title: "no answer older than maxAgeEver is served",
    settings: { cache: { maxAgeEver: "10m" } },
    env: { BUDGET: "1/1d" },
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 600 },
      { ask: PATH, gets: { cache: "hit; ttl=-300; detail=temporary-reduced-capacity", age: 600 } },
      { pass: 0.001 },
      { ask: PATH, gets: { status: 503, problem: "temporary-reduced-capacity" } },
    ],
  },
  {
    id: "9111-4.2.4-oldest-promise",
    title: "no lifetime goes beyond maxAgeEver",
    settings: { cache: { maxAgeEver: "2m" } },
    steps: [
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120", maxAge: 120 } },
      { upstream: { headers: { age: "50" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=70", age: 50, maxAge: 70 } },
    ],
  },
  {
    id: "9111-5.1-invalid",
    title: "an Age that is not a number is ignored",
    steps: [
      { upstream: { headers: { age: "a while", "cache-control": "max-age=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=200", age: 0 } },
    ],
  },
  {
    id: "9111-5.1-list",
    title: "the first of several ages counts",
    steps: [
      { upstream: { headers: { age: "50, 10", "cache-control": "max-age=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=150", age: 50 } },
    ],
  },
  {
    id: "9111-5.1-older-than-its-life",
    title: "an answer that arrives older than its lifetime is stale",
    settings: STRICT,
    steps: [
      { upstream: { headers: { age: "250", "cache-control": "max-age=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0", age: 250, maxAge: 0 } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-expires",
    title: "Expires ends the lifetime",
    settings: STRICT,
    steps: [
      { upstream: { headers: { expires: { secondsFromNow: 60 } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=60", maxAge: 60 } },
      { pass: 60 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-past",
    title: "Expires in the past, or 0, means expired",
    steps: [
      { upstream: { headers: { expires: { secondsFromNow: -60 } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { upstream: { headers: { expires: "0" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-no-date",
    title: "Expires with a number of seconds means expired",
    steps: [
      { upstream: { headers: { expires: "soon" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { upstream: { headers: { expires: "3600" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-nearly-a-date",
    title: "Expires with a malformed date means expired",
    steps: [
      { upstream: { headers: { expires: "Thu, 18-Aug-2050 02:01:18 GMT" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { upstream: { headers: { expires: "Thu, 18 Aug 2050 2:01:18 GMT" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-two-digit-year",
    title: "a year of two digits is the nearest one within 50 years",
    steps: [
      { upstream: { headers: { expires: "Thursday, 18-Aug-50 02:01:18 GMT" } } },
      { ask: PATH, gets: { cache: MISS, maxAge: 300 } },
    ],
  },
  {
    id: "9111-5.4-request",
    title: "Pragma: no-cache means no-cache if there is no Cache-Control",
    settings: { apps: [{ id: "desk", mayForceRefresh: true }] },
    steps: [
      { ask: PATH, app: "desk", gets: { cache: MISS } },
      { pass: 20 },
      {
        ask: PATH,
        app: "desk",
        with: { pragma: "no-cache" },
        gets: { cache: "fwd=request; stored; ttl=300" },
      },
      { pass: 20 },
      {
        ask: PATH,
        app: "desk",
        with: { pragma: "no-cache", "cache-control": "max-age=60" },
        gets: { cache: "hit; ttl=280; detail=memory" },
      },
      { asked: 2, lacks: ["pragma"] },
    ],
  },
  {
    id: "9111-5.4-response",
    title: "Pragma in an answer is ignored",
    steps: [
      { upstream: { headers: { pragma: "no-cache" } } },
      { ask: PATH, gets: { cache: MISS, headers: { pragma: null } } },
    ],
  },
  {
    id: "9111-5.5-warning",
    title: "Warning is neither added nor passed on",
    env: { BUDGET: "1/1d" },
    steps: [
      { upstream: { headers: { warning: '199 - "something"' } } },
      { ask: PATH, gets: { cache: MISS, headers: { warning: null } } },
      { pass: 400 },
      {
        ask: PATH,
        gets: { cache: "hit; ttl=-100; detail=temporary-reduced-capacity", headers: { warning: null } },
      },
    ],
  },
];
