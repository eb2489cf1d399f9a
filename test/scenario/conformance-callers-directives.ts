/**
 * What callers ask of the cache: RFC 9111, sections 5.2 and 5.2.1.
 */
import type { Scenario, Settings } from "./conformance-vocabulary.ts";

/** Fresh for 300 s by default. */
const PATH = "/listings?areaId=76&limit=20";
const MISS = "fwd=miss; stored; ttl=300";
const HIT = "hit; ttl=300; detail=memory";

/** An app that may have answers fetched anew. */
const DESK: Settings = { apps: [{ id: "desk", mayForceRefresh: true }] };
/** What has expired is not given while it is refreshed. */
const STRICT: Settings = { cache: { staleWhileRevalidate: { listings: "0s" } } };

export const CALLERS_DIRECTIVES: readonly Scenario[] = [
  {
    id: "9111-5.2-spelling",
    title: "directives are read in any case, and with quoted or unquoted values",
    steps: [
      { upstream: { headers: { "cache-control": 'MAX-AGE="40" , Must-Revalidate' } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=40" } },
      { pass: 30 },
      {
        ask: PATH,
        with: { "cache-control": 'ONLY-IF-CACHED, Max-Age="20"' },
        gets: { status: 504, problem: "not-in-cache" },
      },
      { pass: 10 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=40" } },
    ],
  },
  {
    id: "9111-5.2-not-passed-on",
    title: "a caller's directives are not sent upstream, and the upstream's not to callers",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=40, stale-if-error=9, public" } } },
      {
        ask: PATH,
        with: { "cache-control": "no-cache, max-age=0" },
        gets: { cache: "fwd=miss; stored; ttl=40", maxAge: 40 },
      },
      { asked: 1, lacks: ["cache-control", "pragma"] },
    ],
  },
  {
    id: "9111-5.2.1.1-max-age",
    title: "max-age: an app with mayForceRefresh gets an answer that is as young as it asks for",
    settings: DESK,
    steps: [
      { ask: PATH, app: "desk", gets: { cache: MISS } },
      { pass: 60 },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "max-age=60" },
        gets: { cache: "hit; ttl=240; detail=memory" },
      },
      { pass: 1 },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "max-age=60" },
        gets: { cache: "fwd=request; stored; ttl=300", age: 0 },
      },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.1-advisory",
    title: "max-age: other apps get a fresh answer, marked as refresh-not-allowed",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 61 },
      {
        ask: PATH,
        with: { "cache-control": "max-age=60" },
        gets: { cache: "hit; ttl=239; detail=refresh-not-allowed", age: 61 },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-5.2.1.1-too-old",
    title: "max-age: a stale answer that is older is not served; the caller waits for a new one",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 310 },
      { revise: true },
      {
        ask: PATH,
        with: { "cache-control": "max-age=60" },
        gets: { cache: "fwd=stale; stored; ttl=300", otherBodyThan: "first" },
      },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.1-no-max-stale",
    title: "max-age without max-stale: no stale answer is served",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 310 },
      { revise: true },
      {
        ask: PATH,
        with: { "cache-control": "max-age=3600" },
        gets: { cache: "fwd=stale; stored; ttl=300", otherBodyThan: "first" },
      },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.2-within",
    title: "max-stale: a stale answer is served up to that staleness",
    settings: STRICT,
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 330 },
      {
        ask: PATH,
        with: { "cache-control": "max-stale=30" },
        gets: { cache: "hit; ttl=-30; detail=max-stale", age: 330, maxAge: 0 },
      },
      { pass: 1 },
      {
        ask: PATH,
        with: { "cache-control": "max-stale=30" },
        gets: { cache: "fwd=stale; stored; ttl=300" },
      },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.2-any",
    title: "max-stale without a number: a stale answer of any staleness is served",
    settings: STRICT,
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 80_000 },
      {
        ask: PATH,
        with: { "cache-control": "max-stale" },
        gets: { cache: "hit; ttl=-79700; detail=max-stale" },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-5.2.1.2-oldest",
    title: "max-stale: no answer older than maxAgeEver is served",
    settings: { cache: { maxAgeEver: "10m" } },
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 601 },
      { ask: PATH, with: { "cache-control": "max-stale" }, gets: { cache: "fwd=stale; stored; ttl=300" } },
    ],
  },
  {
    id: "9111-5.2.1.3-min-fresh",
    title: "min-fresh: an app with mayForceRefresh gets an answer that is fresh for that long",
    settings: DESK,
    steps: [
      { ask: PATH, app: "desk", gets: { cache: MISS } },
      { pass: 200 },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "min-fresh=100" },
        gets: { cache: "hit; ttl=100; detail=memory" },
      },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "min-fresh=101" },
        gets: { cache: "fwd=request; stored; ttl=300" },
      },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.3-advisory",
    title: "min-fresh: other apps get a fresh answer, and wait only if it is stale",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 299 },
      {
        ask: PATH,
        with: { "cache-control": "min-fresh=60" },
        gets: { cache: "hit; ttl=1; detail=refresh-not-allowed" },
      },
      { pass: 2 },
      { ask: PATH, with: { "cache-control": "min-fresh=60" }, gets: { cache: "fwd=stale; stored; ttl=300" } },
    ],
  },
  {
    id: "9111-5.2.1.4-no-cache",
    title:
      "no-cache: an app with mayForceRefresh gets a stored answer only after the upstream has confirmed it",
    settings: DESK,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, app: "desk", as: "first", gets: { cache: MISS } },
      { pass: 20 },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "no-cache" },
        gets: { cache: "fwd=request; stored; ttl=300", age: 0, sameBodyAs: "first" },
      },
      { asked: 2, has: ["if-none-match"] },
    ],
  },
  {
    id: "9111-5.2.1.4-advisory",
    title: "no-cache: other apps get a fresh answer, marked as refresh-not-allowed",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      {
        ask: PATH,
        with: { "cache-control": "no-cache" },
        gets: { cache: "hit; ttl=300; detail=refresh-not-allowed" },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-5.2.1.4-recently",
    title: "no-cache: an answer that was just fetched is not fetched again",
    settings: DESK,
    steps: [
      { ask: PATH, app: "desk", gets: { cache: MISS } },
      { pass: 9 },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "no-cache" },
        gets: { cache: "hit; ttl=291; detail=refreshed-recently" },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-5.2.1.4-expired",
    title: "no-cache: the caller waits for the upstream if the answer is stale",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 310 },
      { ask: PATH, with: { "cache-control": "no-cache" }, gets: { cache: "fwd=stale; stored; ttl=300" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.4-failure",
    title: "no-cache: if the upstream fails, the stale answer is served, unless stale-if-error=0",
    settings: DESK,
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 310 },
      { upstream: { fault: { status: 500 } } },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "no-cache" },
        gets: { cache: "hit; ttl=-10; detail=upstream-error", sameBodyAs: "first" },
      },
      {
        ask: PATH,
        app: "desk",
        with: { "cache-control": "no-cache, stale-if-error=0" },
        gets: { status: 502, problem: "upstream-error" },
      },
    ],
  },
  {
    id: "9111-5.2.1.5-no-store",
    title: "no-store: the answer is passed on and not stored",
    steps: [
      {
        ask: PATH,
        with: { "cache-control": "no-store" },
        gets: { cache: "fwd=request", age: 0, headers: { "cache-control": "no-store" } },
      },
      { ask: PATH, gets: { cache: MISS } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.5-what-is-stored",
    title: "no-store: a stored answer stays and is not used",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { revise: true },
      {
        ask: PATH,
        with: { "cache-control": "no-store" },
        gets: { cache: "fwd=request", otherBodyThan: "first" },
      },
      { ask: PATH, gets: { cache: HIT, sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-5.2.1.6-no-transform",
    title: "no-transform: a caller that accepts no encoding gets none",
    steps: [
      {
        ask: PATH,
        with: { "cache-control": "no-transform" },
        gets: { cache: MISS, headers: { "content-encoding": null } },
      },
      {
        ask: PATH,
        with: { "cache-control": "no-transform", "accept-encoding": "br" },
        gets: { cache: HIT, headers: { "content-encoding": "br" } },
      },
    ],
  },
  {
    id: "9111-5.2.1.7-stored",
    title: "only-if-cached: a stored answer is served",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { ask: PATH, with: { "cache-control": "only-if-cached" }, gets: { cache: HIT, sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-5.2.1.7-not-stored",
    title: "only-if-cached: without a stored answer, the caller gets 504 without an upstream call",
    steps: [
      {
        ask: PATH,
        with: { "cache-control": "only-if-cached" },
        gets: { status: 504, cache: "detail=not-in-cache", problem: "not-in-cache" },
      },
      { asked: 0 },
    ],
  },
  {
    id: "9111-5.2.1.7-other-constraints",
    title: "only-if-cached: the stored answer must meet the other directives",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 30 },
      {
        ask: PATH,
        with: { "cache-control": "only-if-cached, max-age=10" },
        gets: { status: 504, problem: "not-in-cache" },
      },
      {
        ask: PATH,
        with: { "cache-control": "only-if-cached, min-fresh=280" },
        gets: { status: 504, problem: "not-in-cache" },
      },
      { pass: 600 },
      {
        ask: PATH,
        with: { "cache-control": "only-if-cached" },
        gets: { status: 504, problem: "not-in-cache" },
      },
      {
        ask: PATH,
        with: { "cache-control": "only-if-cached, max-stale=400" },
        gets: { cache: "hit; ttl=-330; detail=max-stale" },
      },
      { asked: 1 },
    ],
  },
];
