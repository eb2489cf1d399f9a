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
    title: "the upstream's max-age is the lifetime if it is shorter than the settings'",
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
    title: "must-revalidate: a stale answer is never served without validation",
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
    title: "must-revalidate: without the upstream, the caller gets an error",
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
    title: "must-revalidate: the same if the budget is spent",
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
    title: "must-understand does not lift no-store",
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
    title: "an answer with no-cache is not served if it cannot be validated",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "no-cache" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-error" } },
    ],
  },
  {
    id: "9111-5.2.2.4-fields",
    title: "no-cache with field names applies to the whole answer",
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
    title: "an answer with no-store is not stored",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "no-store" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2, lacks: ["if-none-match"] },
    ],
  },
  {
    id: "9111-5.2.2.5-promise",
    title: "an answer with no-store is sent on with no-store",
    steps: [
      { upstream: { headers: { "cache-control": "no-store" } } },
      { ask: PATH, gets: { headers: { "cache-control": "no-store" } } },
    ],
  },
  {
    id: "9111-5.2.2.5-from-now-on",
    title: "an answer with no-store removes the stored one",
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
    title: "callers that already wait get an answer with no-store; later callers do not",
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
    title: "no-transform of the upstream does not prevent compression",
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
    title: "an answer with private is not stored",
    steps: [
      { upstream: { headers: { "cache-control": "private, max-age=60" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-5.2.2.7-promise",
    title: "an answer with private is sent on with a directive that forbids storing",
    steps: [
      { upstream: { headers: { "cache-control": "private, max-age=60" } } },
      { ask: PATH, gets: { headers: { "cache-control": "no-store" } } },
    ],
  },
  {
    id: "9111-5.2.2.7-fields",
    title: "private with field names applies to the whole answer",
    steps: [
      { upstream: { headers: { "cache-control": 'private="x-user", max-age=60' } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
    ],
  },
  {
    id: "9111-5.2.2.8-proxy-revalidate",
    title: "proxy-revalidate applies to the gateway like must-revalidate",
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
    title: "public does not lengthen a lifetime",
    steps: [
      { upstream: { headers: { "cache-control": "public" } } },
      { ask: PATH, gets: { cache: MISS, maxAge: 300 } },
    ],
  },
  {
    id: "9111-5.2.2.10-s-maxage",
    title: "s-maxage is the lifetime, and no stale answer is served after it",
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
    title: "unknown directives are ignored",
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
