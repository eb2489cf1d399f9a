/**
 * Asking whether what is kept is still true, what ends it early, and who could misuse it: RFC 9111, sections 4.3, 4.4
 * and 7.
 */
import type { Scenario, Settings } from "./conformance-vocabulary.ts";

/** Fresh for 300 s by default. */
const PATH = "/listings?areaId=76&limit=20";
const MISS = "fwd=miss; stored; ttl=300";
const HIT = "hit; ttl=300; detail=memory";
const CONFIRMED = "fwd=stale; stored; ttl=300";

/** What has expired is not given while it is refreshed, so that validation shows at once. */
const STRICT: Settings = { cache: { staleWhileRevalidate: { listings: "0s" } } };

export const VALIDATION: readonly Scenario[] = [
  {
    id: "9111-4.3.1-etag",
    title: "what has expired is asked for by the upstream's ETag",
    settings: STRICT,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, gets: { cache: MISS } },
      { asked: 1, lacks: ["if-none-match", "if-modified-since"] },
      { pass: 300 },
      { ask: PATH, gets: { cache: CONFIRMED } },
      { asked: 2, has: ["if-none-match"], lacks: ["if-modified-since"] },
    ],
  },
  {
    id: "9111-4.3.1-last-modified",
    title: "or by its Last-Modified",
    settings: STRICT,
    steps: [
      { upstream: { validators: "last-modified" } },
      { ask: PATH, gets: { cache: MISS } },
      { pass: 300 },
      { ask: PATH, gets: { cache: CONFIRMED } },
      { asked: 2, has: ["if-modified-since"], lacks: ["if-none-match"] },
    ],
  },
  {
    id: "9111-4.3.1-both",
    title: "or by both, where it gave both",
    settings: STRICT,
    steps: [
      { upstream: { validators: "both" } },
      { ask: PATH, gets: { cache: MISS } },
      { pass: 300 },
      { ask: PATH, gets: { cache: CONFIRMED } },
      { asked: 2, has: ["if-none-match", "if-modified-since"] },
    ],
  },
  {
    id: "9111-4.3.1-none",
    title: "without conditions where it gave none",
    settings: STRICT,
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 300 },
      { ask: PATH, gets: { cache: CONFIRMED } },
      { asked: 2, lacks: ["if-none-match", "if-modified-since"] },
    ],
  },
  {
    id: "9111-4.3.1-not-the-callers",
    title: "a caller's own conditions go no further than the gateway",
    steps: [
      { upstream: { validators: "both" } },
      {
        ask: PATH,
        with: { "if-none-match": '"theirs"', "if-modified-since": "Sat, 01 Jan 2022 00:00:00 GMT" },
        gets: { cache: MISS },
      },
      { asked: 1, lacks: ["if-none-match", "if-modified-since"] },
    ],
  },
  {
    id: "9111-4.3.3-not-modified",
    title: "304: what is stored is good again, and callers go on having it",
    settings: STRICT,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 300 },
      {
        ask: PATH,
        gets: {
          cache: CONFIRMED,
          headers: { etag: { of: "first", header: "etag" } },
          sameBodyAs: "first",
        },
      },
      { asked: 2, has: ["if-none-match"], answeredWith: 304 },
      {
        ask: PATH,
        with: { "if-none-match": { of: "first", header: "etag" } },
        gets: { status: 304, cache: HIT },
      },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.3.3-told",
    title: "Cache-Status tells of the 304 that the caller does not see (RFC 9211, section 2.3)",
    settings: STRICT,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, gets: { cache: "fwd=miss; fwd-status=200; stored; ttl=300" } },
      { pass: 300 },
      { ask: PATH, gets: { cache: "fwd=stale; fwd-status=304; stored; ttl=300" } },
    ],
  },
  {
    id: "9111-4.3.3-changed",
    title: "a full answer takes the place of what was stored",
    settings: STRICT,
    steps: [
      { upstream: { validators: "both" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 300 },
      { revise: true },
      { ask: PATH, as: "second", gets: { cache: CONFIRMED, otherBodyThan: "first" } },
      { asked: 2, has: ["if-none-match"] },
      {
        ask: PATH,
        with: { "if-none-match": { of: "first", header: "etag" } },
        gets: { cache: HIT, sameBodyAs: "second" },
      },
    ],
  },
  {
    id: "9111-4.3.3-same-meaning",
    title: "a full answer that means the same leaves callers the bytes and the ETag they have",
    settings: STRICT,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 300 },
      { upstream: { fault: { respell: true } } },
      {
        ask: PATH,
        gets: {
          cache: CONFIRMED,
          headers: { etag: { of: "first", header: "etag" } },
          sameBodyAs: "first",
        },
      },
      { asked: 2, has: ["if-none-match"], answeredWith: 200 },
      { pass: 300 },
      // From then on it is the new bytes' validator that is asked for.
      { ask: PATH, gets: { cache: CONFIRMED, sameBodyAs: "first" } },
      { asked: 3, has: ["if-none-match"], answeredWith: 304 },
    ],
  },
  {
    id: "9111-4.3.3-gone",
    title: "a 404 takes the place of what was stored as well",
    settings: STRICT,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, gets: { cache: MISS } },
      { pass: 300 },
      { upstream: { fault: { status: 404 } } },
      { ask: PATH, gets: { status: 404, cache: "fwd=stale; stored; ttl=60", problem: "not-found" } },
      { ask: PATH, gets: { status: 404, cache: "hit; ttl=60; detail=memory" } },
    ],
  },
  {
    id: "9111-4.3.3-server-error",
    title: "a 5xx, also when tried again, is as if the upstream had not answered: what is stored stands in",
    settings: STRICT,
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 310 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { cache: "hit; ttl=-10; detail=upstream-error", sameBodyAs: "first" } },
      { asked: 3 },
    ],
  },
  {
    id: "9111-4.3.4-no-validator",
    title: "a 304 that names nothing confirms the one answer that was asked about, and its validators stay",
    settings: STRICT,
    steps: [
      { upstream: { validators: "both" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 300 },
      { upstream: { fault: { status: 304 } } },
      {
        ask: PATH,
        gets: {
          cache: CONFIRMED,
          sameBodyAs: "first",
          headers: { "last-modified": { of: "first", header: "last-modified" } },
        },
      },
      { asked: 2 },
      { pass: 300 },
      { ask: PATH, gets: { cache: CONFIRMED, sameBodyAs: "first" } },
      { asked: 3, has: ["if-none-match", "if-modified-since"] },
    ],
  },
  {
    id: "9111-4.3.4-nothing-asked",
    title: "a 304 to a question without conditions confirms nothing",
    steps: [
      { upstream: { fault: { status: 304 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-invalid-response" } },
      { upstream: {} },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 400 },
      { upstream: { fault: { status: 304 } } },
      { ask: PATH, gets: { cache: "hit; ttl=-100; detail=upstream-invalid-response", sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-4.4-unsafe",
    title: "what is refused invalidates nothing",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { ask: PATH, method: "DELETE", gets: { status: 405, problem: "method-not-allowed" } },
      { ask: PATH, gets: { cache: HIT } },
      { asked: 1 },
    ],
  },
  {
    id: "9111-4.4-marked",
    title: "what an operator declares out of date is validated before it is given again",
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { purge: { tag: "area:76" } },
      { ask: PATH, gets: { cache: CONFIRMED, sameBodyAs: "first" } },
      { asked: 2, has: ["if-none-match"] },
    ],
  },
  {
    id: "9111-4.4-removed",
    title: "what an operator declares wrong is gone",
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, gets: { cache: MISS } },
      { purge: { tag: "area:76", hard: true } },
      { ask: PATH, gets: { cache: MISS } },
      { asked: 2, lacks: ["if-none-match"] },
    ],
  },
  {
    id: "9111-7.1-nothing-unkeyed",
    title: "nothing of a request but its meaning reaches the upstream, so nobody can spoil what others get",
    steps: [
      {
        ask: PATH,
        with: {
          "x-forwarded-host": "evil.example",
          "x-forwarded-for": "203.0.113.9",
          "x-original-url": "/areas",
          "x-http-method-override": "DELETE",
          origin: "https://evil.example",
          cookie: "session=1",
        },
        as: "first",
        gets: { cache: MISS },
      },
      {
        asked: 1,
        lacks: [
          "x-forwarded-host",
          "x-forwarded-for",
          "x-original-url",
          "x-http-method-override",
          "origin",
          "cookie",
        ],
      },
      { ask: PATH, gets: { cache: HIT, sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-7.2-who-asked",
    title: "whoever asks sees whether the answer was there: callers of one company have no secrets here",
    settings: { apps: [{ id: "desk" }, { id: "site" }] },
    steps: [
      { ask: PATH, app: "desk", gets: { cache: MISS } },
      { ask: PATH, app: "site", gets: { cache: HIT } },
    ],
  },
  {
    id: "9111-7.3-problems",
    title: "a problem found here is kept by nobody",
    steps: [
      {
        ask: "/listings?minRooms=many",
        gets: { status: 400, problem: "invalid-query", headers: { "cache-control": "no-store" } },
      },
      { asked: 0 },
    ],
  },
];
