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
    title: "directives are read whatever their case, and with their values quoted or not",
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
    title: "a caller's directives do not reach the upstream, nor the upstream's the caller",
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
    title: "an app that may have it so gets an answer as young as it wants",
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
    title: "any other gets what is fresh, and is told that it is no newer",
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
    title: "whoever says max-age waits for a new answer rather than get a stale one that is older than that",
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
    title: "nor does it get a stale one that is younger: who says max-age and not max-stale wants none",
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
    title: "a caller gets an answer as stale as it accepts, and not staler",
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
    title: "without a number any staleness will do",
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
    title: "but never one older than the settings allow at all",
    settings: { cache: { maxAgeEver: "10m" } },
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 601 },
      { ask: PATH, with: { "cache-control": "max-stale" }, gets: { cache: "fwd=stale; stored; ttl=300" } },
    ],
  },
  {
    id: "9111-5.2.1.3-min-fresh",
    title: "an app that may have it so gets an answer that is good for as long as it wants",
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
    title: "any other gets what is fresh, and waits only for what is not",
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
    title: "an app that may have it so gets what is stored only after the upstream has confirmed it",
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
    title: "any other gets what is fresh, and is told so",
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
    title: "nobody has an answer fetched anew that was fetched a moment ago",
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
    title: "whoever says no-cache waits for the upstream where the answer has expired",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 310 },
      { ask: PATH, with: { "cache-control": "no-cache" }, gets: { cache: "fwd=stale; stored; ttl=300" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.1.4-failure",
    title:
      "where the upstream fails, who said no-cache gets the stale answer, unless it said stale-if-error=0",
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
    title: "an answer to a request that says so is passed on and not kept",
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
    title: "what is stored already stays, and is not what such a request gets",
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
    title: "a caller that wants nothing transformed says which codings it takes: none, and it gets none",
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
    title: "who wants only what is stored gets it",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { ask: PATH, with: { "cache-control": "only-if-cached" }, gets: { cache: HIT, sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-5.2.1.7-not-stored",
    title: "or 504, and the upstream is not asked",
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
    title: "what is stored must meet what else the request says",
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
