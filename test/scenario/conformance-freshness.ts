/**
 * How long what is kept is fresh, and what becomes of it then: RFC 9111, sections 4.2, 5.1 and 5.3 to 5.5.
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
    title: "an answer is fresh while its age is less than its lifetime, and no longer",
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
    title: "a date in another zone than GMT is no date",
    steps: [
      { upstream: { headers: { expires: { secondsFromNow: 86_400, zone: "PST" } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-4.2.1-s-maxage-first",
    title: "s-maxage comes before max-age and Expires",
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
    title: "max-age comes before Expires",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=50", expires: { secondsFromNow: 20 } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=50" } },
    ],
  },
  {
    id: "9111-4.2.1-expires-by-their-clock",
    title: "Expires counts from the upstream's own Date, whatever the clock here says",
    steps: [
      { upstream: { headers: { expires: { secondsFromNow: 20 } }, fault: { clockSkewSeconds: -100 } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120" } },
    ],
  },
  {
    id: "9111-4.2.1-given-twice",
    title: "of a directive that is given twice the first counts",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=30, max-age=90" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30" } },
    ],
  },
  {
    id: "9111-4.2.1-nonsense",
    title: "a lifetime that is no number is over",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=soon", expires: { secondsFromNow: 90 } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-4.2.1-conflict",
    title: "of directives that conflict the stricter counts",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "max-age=90, no-cache" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0" } },
      { asked: 2, has: ["if-none-match"] },
    ],
  },
  {
    id: "9111-4.2.2-settings",
    title: "where the upstream says nothing the settings do, for each kind of answer",
    settings: { cache: { ttl: { listings: "2m", areas: "3h" } } },
    steps: [
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120" } },
      { ask: "/areas?q=Nacka", gets: { cache: "fwd=miss; stored; ttl=10800" } },
    ],
  },
  {
    id: "9111-4.2.2-never-longer",
    title: "a lifetime the upstream gives is shortened to the settings', never lengthened",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=3600" } } },
      { ask: PATH, gets: { cache: MISS, maxAge: 300 } },
      { upstream: { headers: { "cache-control": "max-age=7" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=7", maxAge: 7 } },
    ],
  },
  {
    id: "9111-4.2.2-agreed-otherwise",
    title: "where it was agreed so with the upstream, its word on lifetimes and keeping does not count",
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
    title: "the age an answer had when it came is part of its age, and of its lifetime",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=200", age: "80" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120", age: 80, maxAge: 120 } },
      { pass: 20 },
      { ask: PATH, gets: { cache: "hit; ttl=100; detail=memory", age: 100, maxAge: 100 } },
    ],
  },
  {
    id: "9111-4.2.3-response-delay",
    title: "an answer is at least as old as the request that brought it",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=200" } } },
      { ask: PATH, upstreamTakes: 3, gets: { cache: "fwd=miss; stored; ttl=197", age: 3, maxAge: 197 } },
    ],
  },
  {
    id: "9111-4.2.3-apparent-age",
    title: "the upstream's clock says nothing of an answer's age",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=200" }, fault: { clockSkewSeconds: -100 } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=200", age: 0 } },
    ],
  },
  {
    id: "9111-4.2.3-confirmed",
    title: "an answer's age counts from when the upstream last confirmed it",
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
    title: "an upstream that cannot be reached leaves the stale answer, for as long as the settings say",
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
    title: "a budget that is spent leaves the stale answer as well",
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
    title: "an upstream that can be asked is asked, and its answer waited for",
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
    title: "no answer is given that is older than the settings allow at all",
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
    title: "nor is any promised to be good for longer than that",
    settings: { cache: { maxAgeEver: "2m" } },
    steps: [
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=120", maxAge: 120 } },
      { upstream: { headers: { age: "50" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=70", age: 50, maxAge: 70 } },
    ],
  },
  {
    id: "9111-5.1-invalid",
    title: "an Age that is no number is ignored",
    steps: [
      { upstream: { headers: { age: "a while", "cache-control": "max-age=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=200", age: 0 } },
    ],
  },
  {
    id: "9111-5.1-list",
    title: "of a list of ages the first counts",
    steps: [
      { upstream: { headers: { age: "50, 10", "cache-control": "max-age=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=150", age: 50 } },
    ],
  },
  {
    id: "9111-5.1-older-than-its-life",
    title: "an answer that comes older than its lifetime is stale from the start",
    settings: STRICT,
    steps: [
      { upstream: { headers: { age: "250", "cache-control": "max-age=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0", age: 250, maxAge: 0 } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-expires",
    title: "Expires ends an answer's life",
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
    title: "a time in the past, or 0, says that it is over",
    steps: [
      { upstream: { headers: { expires: { secondsFromNow: -60 } } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { upstream: { headers: { expires: "0" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-no-date",
    title: "so does anything else that is no date, such as a number of seconds",
    steps: [
      { upstream: { headers: { expires: "soon" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { upstream: { headers: { expires: "3600" } } },
      { ask: "/listings?areaId=1", gets: { cache: "fwd=miss; stored; ttl=0" } },
    ],
  },
  {
    id: "9111-5.3-nearly-a-date",
    title: "so does what is nearly a date",
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
    title: "Pragma: no-cache is read where there is no Cache-Control, as what it meant",
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
    title: "Pragma in an answer means nothing",
    steps: [
      { upstream: { headers: { pragma: "no-cache" } } },
      { ask: PATH, gets: { cache: MISS, headers: { pragma: null } } },
    ],
  },
  {
    id: "9111-5.5-warning",
    title: "no Warning is made, and none passed on",
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
