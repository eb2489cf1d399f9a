/**
 * What the upstream asks of the cache: RFC 9111, sections 5.2.2 and 5.2.3.
 */
import type { Scenario, Settings } from "./conformance-vocabulary.ts";

/** Fresh for 300 s by default. */
const PATH = "/listings?areaId=76&limit=20";
const MISS = "fwd=miss; stored; ttl=300";
const HIT = "hit; ttl=300; detail=memory";

/** What has expired is not given while it is refreshed. */
const STRICT: Settings = { cache: { staleWhileRevalidate: { listings: "0s" } } };

export const UPSTREAMS_DIRECTIVES: readonly Scenario[] = [
  {
    id: "9111-5.2.2.1-max-age",
    title: "the upstream's max-age is the answer's lifetime where it is shorter than the settings'",
    settings: STRICT,
    steps: [
      { upstream: { headers: { "cache-control": "max-age=30" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30", maxAge: 30 } },
      { pass: 29 },
      { ask: PATH, gets: { cache: "hit; ttl=1; detail=memory" } },
      { pass: 1 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=30" } },
    ],
  },
  {
    id: "9111-5.2.2.2-no-longer",
    title:
      "must-revalidate: an expired answer is given to nobody before it is validated, whatever it accepts",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "max-age=30, must-revalidate" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30" } },
      { pass: 30 },
      {
        ask: PATH,
        with: { "cache-control": "max-stale=600" },
        gets: { cache: "fwd=stale; stored; ttl=30" },
      },
      { asked: 2, has: ["if-none-match"] },
    ],
  },
  {
    id: "9111-5.2.2.2-disconnected",
    title: "must-revalidate: where it cannot be validated, an error takes its place",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=30, must-revalidate, stale-if-error=600" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30" } },
      { pass: 31 },
      { upstream: { fault: { disconnect: true } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-unreachable" } },
    ],
  },
  {
    id: "9111-5.2.2.2-may-not-ask",
    title: "must-revalidate: also where the budget is spent",
    env: { BUDGET: "1/1d" },
    steps: [
      { upstream: { headers: { "cache-control": "max-age=30, must-revalidate" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30" } },
      { pass: 31 },
      { ask: PATH, gets: { status: 503, problem: "temporary-reduced-capacity" } },
    ],
  },
  {
    id: "9111-5.2.2.3-must-understand",
    title: "must-understand lifts no no-store",
    steps: [
      { upstream: { headers: { "cache-control": "no-store, must-understand, max-age=30" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
    ],
  },
  {
    id: "9111-5.2.2.4-no-cache",
    title: "an answer with no-cache is validated before each use",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "no-cache" } } },
      { ask: PATH, as: "first", gets: { cache: "fwd=miss; stored; ttl=0", maxAge: 0 } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0", sameBodyAs: "first" } },
      { ask: PATH, with: { "cache-control": "max-stale" }, gets: { cache: "fwd=stale; stored; ttl=0" } },
      { asked: 3, has: ["if-none-match"] },
    ],
  },
  {
    id: "9111-5.2.2.4-failure",
    title: "and not given where it cannot be",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "no-cache" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-error" } },
    ],
  },
  {
    id: "9111-5.2.2.4-fields",
    title: "no-cache with the names of fields is taken for the whole",
    steps: [
      {
        upstream: {
          validators: "etag",
          headers: { "cache-control": 'max-age=30, no-cache="set-cookie, etag"' },
        },
      },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0" } },
      { asked: 2, has: ["if-none-match"] },
    ],
  },
  {
    id: "9111-5.2.2.5-no-store",
    title: "an answer with no-store is not kept",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "no-store" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2, lacks: ["if-none-match"] },
    ],
  },
  {
    id: "9111-5.2.2.5-promise",
    title: "and no cache behind the gateway is invited to keep it",
    steps: [
      { upstream: { headers: { "cache-control": "no-store" } } },
      { ask: PATH, gets: { headers: { "cache-control": "no-store" } } },
    ],
  },
  {
    id: "9111-5.2.2.5-from-now-on",
    title: "one that comes in place of a stored one takes that away: it is out of date",
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, gets: { cache: MISS } },
      { pass: 360 },
      { revise: true },
      { upstream: { headers: { "cache-control": "no-store" } } },
      { ask: PATH, as: "new", gets: { cache: "fwd=stale; ttl=0; detail=upstream-no-store" } },
      { pass: 1 },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store", sameBodyAs: "new" } },
      { asked: 3 },
    ],
  },
  {
    id: "9111-5.2.2.5-shared-by-those-who-wait",
    title: "who waited for it already gets it; who comes later does not",
    steps: [
      { upstream: { headers: { "cache-control": "no-store" } } },
      {
        together: [
          { ask: PATH, as: "first", gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
          {
            ask: PATH,
            gets: {
              cache: "fwd=miss; collapsed; ttl=0; detail=upstream-no-store",
              sameBodyAs: "first",
            },
          },
        ],
      },
      { asked: 1 },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.2.6-no-transform",
    title:
      "what the upstream wants untouched goes out in the coding its caller takes, and is the same decoded",
    steps: [
      { upstream: { headers: { "cache-control": "no-transform" } } },
      { ask: PATH, as: "plain", gets: { cache: MISS, headers: { "content-encoding": null } } },
      {
        ask: PATH,
        with: { "accept-encoding": "gzip" },
        gets: { cache: HIT, headers: { "content-encoding": "gzip" }, decodesTo: "plain" },
      },
    ],
  },
  {
    id: "9111-5.2.2.7-private",
    title: "an answer meant for one is not kept",
    steps: [
      { upstream: { headers: { "cache-control": "private, max-age=60" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.2.7-promise",
    title: "and no shared cache behind the gateway is invited to keep it",
    steps: [
      { upstream: { headers: { "cache-control": "private, max-age=60" } } },
      { ask: PATH, gets: { headers: { "cache-control": "no-store" } } },
    ],
  },
  {
    id: "9111-5.2.2.7-fields",
    title: "nor one of which only named fields are",
    steps: [
      { upstream: { headers: { "cache-control": 'private="x-user", max-age=60' } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
    ],
  },
  {
    id: "9111-5.2.2.8-proxy-revalidate",
    title: "proxy-revalidate binds the gateway as must-revalidate does",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=30, proxy-revalidate" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30" } },
      { pass: 31 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-error" } },
    ],
  },
  {
    id: "9111-5.2.2.9-public",
    title: "public makes no lifetime longer",
    steps: [
      { upstream: { headers: { "cache-control": "public" } } },
      { ask: PATH, gets: { cache: MISS, maxAge: 300 } },
    ],
  },
  {
    id: "9111-5.2.2.10-s-maxage",
    title: "s-maxage is the lifetime here, and what has outlived it is not given",
    steps: [
      { upstream: { headers: { "cache-control": "s-maxage=30, max-age=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=30" } },
      { pass: 30 },
      {
        ask: PATH,
        with: { "cache-control": "max-stale=600" },
        gets: { cache: "fwd=stale; stored; ttl=30" },
      },
      { pass: 31 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-error" } },
    ],
  },
  {
    id: "9111-5.2.3-unknown",
    title: "directives that are not known are as if they were not there",
    steps: [
      { upstream: { headers: { "cache-control": 'immutable, community="UCI", max-age=40, x=y' } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=40" } },
      {
        ask: PATH,
        with: { "cache-control": "x-hurry=1, only-if-cached" },
        gets: { cache: "hit; ttl=40; detail=memory" },
      },
    ],
  },
];
