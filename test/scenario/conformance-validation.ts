/**
 * Validation, invalidation and security of stored answers: RFC 9111, sections 4.3, 4.4
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
    title: "an expired answer is requested with its ETag",
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
    title: "an expired answer without an ETag is requested with its Last-Modified",
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
    title: "an expired answer with both is requested with both",
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
    title: "an expired answer without validators is requested without conditions",
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
    title: "a caller's own conditions are not sent upstream",
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
    title: "a 304 makes the stored answer fresh again",
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
    title: "Cache-Status shows the 304 that the caller does not get (RFC 9211, section 2.3)",
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
    title: "a full answer replaces the stored one",
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
    title: "a full answer with the same meaning keeps the stored bytes and ETag",
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
    title: "a 404 replaces the stored answer",
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
    title: "after a 5xx and a failed retry, the stored answer is served stale",
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
    title: "a 304 without a validator confirms the requested answer, which keeps its validators",
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
    title: "a 304 to a request without conditions is refused",
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
    title: "a refused request invalidates nothing",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { ask: PATH, method: "DELETE", gets: { status: 405, problem: "method-not-allowed" } },
      { ask: PATH, gets: { cache: HIT } },
      { asked: 1 },
    ],
  },
  {
    id: "9111-4.4-marked",
    title: "a soft-purged answer is validated before it is served again",
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
    title: "a hard-purged answer is removed",
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
    title: "only the meaning of a request is sent upstream, so callers cannot poison the cache",
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
    title: "every caller sees whether an answer was cached",
    settings: { apps: [{ id: "desk" }, { id: "site" }] },
    steps: [
      { ask: PATH, app: "desk", gets: { cache: MISS } },
      { ask: PATH, app: "site", gets: { cache: HIT } },
    ],
  },
  {
    id: "9111-7.3-problems",
    title: "a problem of the gateway itself may not be stored",
    steps: [
      {
        ask: "/listings?minRooms=many",
        gets: { status: 400, problem: "invalid-query", headers: { "cache-control": "no-store" } },
      },
      { asked: 0 },
    ],
  },
];
