/**
 * What callers get that have an answer already: RFC 9111, section 4.3.2.
 */
import type { Scenario } from "./conformance-vocabulary.ts";

/** Fresh for 300 s by default. */
const PATH = "/listings?areaId=76&limit=20";
const MISS = "fwd=miss; stored; ttl=300";
const HIT = "hit; ttl=300; detail=memory";

export const CONDITIONAL: readonly Scenario[] = [
  {
    id: "9111-4.3.2-if-none-match",
    title: "If-None-Match with the stored ETag gives 304 with the headers of the answer",
    steps: [
      { upstream: { validators: "last-modified" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 10 },
      {
        ask: PATH,
        with: { "if-none-match": { of: "first", header: "etag" } },
        gets: {
          status: 304,
          cache: "hit; ttl=290; detail=memory",
          age: 10,
          maxAge: 290,
          headers: {
            etag: { of: "first", header: "etag" },
            "last-modified": { of: "first", header: "last-modified" },
            vary: "Accept, Accept-Encoding",
            "content-type": null,
          },
        },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-4.3.2-other-tag",
    title: "If-None-Match with other ETags gives the answer",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { ask: PATH, with: { "if-none-match": '"one", W/"two"' }, gets: { cache: HIT, sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-4.3.2-any",
    title: "If-None-Match: * matches any stored answer",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { ask: PATH, with: { "if-none-match": "*" }, gets: { status: 304, cache: HIT } },
    ],
  },
  {
    id: "9111-4.3.2-fetched",
    title: "an answer that was fetched and is unchanged gives 304",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { purge: { all: true, hard: true } },
      {
        ask: PATH,
        with: { "if-none-match": { of: "first", header: "etag" } },
        gets: { status: 304, cache: MISS },
      },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.3.2-if-modified-since",
    title: "If-Modified-Since with the Last-Modified or a later time gives 304",
    steps: [
      { upstream: { validators: "last-modified" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      {
        ask: PATH,
        with: { "if-modified-since": { of: "first", header: "last-modified" } },
        gets: { status: 304, cache: HIT },
      },
      { ask: PATH, with: { "if-modified-since": "Sat, 01 Jan 2050 00:00:00 GMT" }, gets: { status: 304 } },
      { ask: PATH, with: { "if-modified-since": "Sat, 01 Jan 2022 00:00:00 GMT" }, gets: { cache: HIT } },
    ],
  },
  {
    id: "9111-4.3.2-no-date",
    title: "a malformed If-Modified-Since is ignored (RFC 9110, section 13.1.3)",
    steps: [
      { upstream: { validators: "last-modified" } },
      { ask: PATH, gets: { cache: MISS } },
      { ask: PATH, with: { "if-modified-since": "last week" }, gets: { cache: HIT } },
      { ask: PATH, with: { "if-modified-since": "2050" }, gets: { cache: HIT } },
    ],
  },
  {
    id: "9111-4.3.2-no-last-modified",
    title: "If-Modified-Since is ignored if the answer has no Last-Modified",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS, headers: { "last-modified": null } } },
      {
        ask: PATH,
        with: { "if-modified-since": { of: "first", header: "date" } },
        gets: { cache: HIT, sameBodyAs: "first" },
      },
    ],
  },
  {
    id: "9111-4.3.2-precedence",
    title: "If-Modified-Since is ignored beside If-None-Match, and If-Match always",
    steps: [
      { upstream: { validators: "last-modified" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      {
        ask: PATH,
        with: { "if-none-match": '"other"', "if-modified-since": { of: "first", header: "last-modified" } },
        gets: { cache: HIT, sameBodyAs: "first" },
      },
      {
        ask: PATH,
        with: { "if-match": '"other"', "if-unmodified-since": "Sat, 01 Jan 2022 00:00:00 GMT" },
        gets: { cache: HIT, sameBodyAs: "first" },
      },
    ],
  },
  {
    id: "9111-4.3.2-problem",
    title: "a stored 404 never gives 304",
    steps: [
      { ask: "/sold/1", gets: { status: 404, cache: "fwd=miss; stored; ttl=60" } },
      {
        ask: "/sold/1",
        with: { "if-none-match": "*" },
        gets: { status: 404, cache: "hit; ttl=60; detail=memory", problem: "not-found" },
      },
    ],
  },
  {
    id: "9111-4.3.2-stale",
    title: "a stale answer that may be served gives 304 too",
    env: { BUDGET: "1/1d" },
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 400 },
      {
        ask: PATH,
        with: { "if-none-match": { of: "first", header: "etag" } },
        gets: { status: 304, cache: "hit; ttl=-100; detail=temporary-reduced-capacity", maxAge: 0 },
      },
    ],
  },
];
