/**
 * What is kept, and how what is kept is chosen: RFC 9111, sections 2 to 4.1.
 */
import type { Scenario } from "./conformance-vocabulary.ts";

/** Fresh for 300 s by default. */
const PATH = "/listings?areaId=1,76&limit=20";
const MISS = "fwd=miss; stored; ttl=300";
const HIT = "hit; ttl=300; detail=memory";

export const STORING: readonly Scenario[] = [
  {
    id: "9111-1.2.2-more-than-a-number",
    title: "a number of seconds that is too large counts as infinite",
    settings: { cache: { staleWhileRevalidate: { listings: "0s" } } },
    steps: [
      { upstream: { headers: { "cache-control": "max-age=99999999999999999999999" } } },
      { ask: PATH, gets: { cache: MISS, maxAge: 300 } },
      { pass: 360 },
      {
        ask: PATH,
        with: { "cache-control": "max-stale=99999999999999999999999" },
        gets: { cache: "hit; ttl=-60; detail=max-stale" },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-2-one-question",
    title: "a stored answer serves every spelling of its query",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      {
        ask: "/listings/?limit=020&areaId=76&areaId=1&offset=0",
        gets: { cache: HIT, sameBodyAs: "first" },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-2-two-questions",
    title: "a stored answer serves no other query",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { ask: "/listings?areaId=1,76&limit=21", gets: { cache: MISS, otherBodyThan: "first" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-2-head",
    title: "an answer fetched for HEAD serves GET, and the other way round",
    steps: [
      { ask: PATH, method: "HEAD", gets: { cache: MISS } },
      { ask: PATH, as: "whole", gets: { cache: HIT } },
      {
        ask: PATH,
        method: "HEAD",
        gets: { cache: HIT, headers: { etag: { of: "whole", header: "etag" } }, otherBodyThan: "whole" },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-3-ok",
    title: "a 200 is stored, also without a lifetime from the upstream",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS, age: 0, maxAge: 300 } },
      { ask: PATH, gets: { cache: HIT, sameBodyAs: "first" } },
      { asked: 1 },
    ],
  },
  {
    id: "9111-3-not-found",
    title: "a 404 is stored for its own time",
    steps: [
      { ask: "/sold/1", gets: { status: 404, cache: "fwd=miss; stored; ttl=60", maxAge: 60 } },
      { pass: 59 },
      {
        ask: "/sold/1",
        gets: { status: 404, cache: "hit; ttl=1; detail=memory", problem: "not-found", age: 59, maxAge: 1 },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-3-bad-request",
    title: "a 400 of the upstream is stored like a 404",
    steps: [
      { upstream: { fault: { status: 400 } } },
      { ask: PATH, gets: { status: 400, cache: "fwd=miss; stored; ttl=60", problem: "upstream-rejected" } },
      { upstream: {} },
      { ask: PATH, gets: { status: 400, cache: "hit; ttl=60; detail=memory" } },
      { pass: 60 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=300" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-3-server-error",
    title: "a failure of the upstream is not stored",
    steps: [
      { upstream: { fault: { status: 500 } } },
      {
        ask: PATH,
        gets: { status: 502, problem: "upstream-error", headers: { "cache-control": "no-store" } },
      },
      { upstream: {} },
      { ask: PATH, gets: { cache: MISS } },
      // The failed one was tried twice.
      { asked: 3 },
    ],
  },
  {
    id: "9111-3-redirect",
    title: "a redirect is neither stored nor followed",
    steps: [
      { upstream: { fault: { redirect: true } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-invalid-response" } },
      { upstream: {} },
      { ask: PATH, gets: { cache: MISS } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-3.1-own-header",
    title: "only the upstream's header fields about the content are stored",
    steps: [
      { upstream: { validators: "both", headers: { "x-powered-by": "PHP", "set-cookie": "session=1" } } },
      {
        ask: PATH,
        as: "first",
        gets: { headers: { "x-powered-by": null, "set-cookie": null } },
      },
      {
        ask: PATH,
        gets: {
          cache: HIT,
          headers: {
            "x-powered-by": null,
            "set-cookie": null,
            "content-type": { of: "first", header: "content-type" },
            "last-modified": { of: "first", header: "last-modified" },
          },
        },
      },
    ],
  },
  {
    id: "9111-3.2-terms-of-304",
    title: "the lifetime of a 304 replaces the previous one",
    steps: [
      { upstream: { validators: "etag", headers: { "cache-control": "max-age=60, must-revalidate" } } },
      { ask: PATH, as: "first", gets: { cache: "fwd=miss; stored; ttl=60" } },
      { pass: 60 },
      { upstream: { headers: { "cache-control": "max-age=120" } } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=120", sameBodyAs: "first" } },
      { asked: 2, has: ["if-none-match"] },
      { pass: 130 },
      // What forbade it before is not said any more.
      { ask: PATH, gets: { cache: "hit; ttl=-10; detail=stale-while-revalidate" } },
    ],
  },
  {
    id: "9111-3.3-cut",
    title: "an answer that was cut off is neither served nor stored",
    steps: [
      { upstream: { fault: { cutBody: true } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-invalid-response" } },
      { upstream: {} },
      { ask: PATH, gets: { cache: MISS } },
    ],
  },
  {
    id: "9111-3.3-partial",
    title: "a 206 is neither served nor stored",
    steps: [
      { upstream: { fault: { status: 206 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-invalid-response" } },
      { upstream: {} },
      { ask: PATH, gets: { cache: MISS } },
    ],
  },
  {
    id: "9111-3.4-range",
    title: "a request with Range gets the whole answer, and the upstream request has no Range",
    steps: [
      { ask: PATH, with: { range: "bytes=0-9" }, as: "first", gets: { cache: MISS } },
      { asked: 1, lacks: ["range", "if-range"] },
      {
        ask: PATH,
        with: { range: "bytes=0-9" },
        gets: { cache: HIT, sameBodyAs: "first", headers: { "content-range": null, "accept-ranges": null } },
      },
    ],
  },
  {
    id: "9111-3.5-authorization",
    title: "a caller's Authorization is not sent upstream and does not affect storing",
    steps: [
      { ask: PATH, with: { authorization: "Bearer one" }, as: "first", gets: { cache: MISS } },
      { asked: 1, lacks: ["authorization"] },
      { ask: PATH, with: { authorization: "Bearer two" }, gets: { cache: HIT, sameBodyAs: "first" } },
      { ask: PATH, gets: { cache: HIT, sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-4-age",
    title: "a stored answer has its age and its remaining lifetime",
    steps: [
      { ask: PATH, gets: { cache: MISS, age: 0, maxAge: 300 } },
      { pass: 17 },
      { ask: PATH, gets: { cache: "hit; ttl=283; detail=memory", age: 17, maxAge: 283 } },
    ],
  },
  {
    id: "9111-4-collapsed",
    title: "simultaneous requests of one query share one upstream call",
    steps: [
      {
        together: [
          { ask: PATH, as: "first", gets: { cache: MISS } },
          { ask: PATH, gets: { cache: "fwd=miss; collapsed; stored; ttl=300", sameBodyAs: "first" } },
          {
            ask: "/listings?limit=20&areaId=76,1",
            gets: { cache: "fwd=miss; collapsed; stored; ttl=300", sameBodyAs: "first" },
          },
        ],
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-4-unsafe",
    title: "methods other than GET and HEAD are refused and not sent upstream",
    steps: [
      {
        ask: PATH,
        method: "POST",
        gets: { status: 405, problem: "method-not-allowed", headers: { allow: "GET, HEAD" } },
      },
      { asked: 0 },
    ],
  },
  {
    id: "9111-4.1-format",
    title: "an answer in one format does not serve requests for another",
    steps: [
      { ask: PATH, as: "plain", gets: { cache: MISS, headers: { vary: "Accept, Accept-Encoding" } } },
      {
        ask: PATH,
        with: { accept: "application/vnd.propertyservice-v2+json" },
        gets: { cache: MISS, headers: { "content-type": "application/vnd.propertyservice-v2+json" } },
      },
      { asked: 2 },
      { ask: PATH, with: { accept: "application/json" }, gets: { cache: HIT, sameBodyAs: "plain" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.1-coding",
    title: "one stored answer serves every encoding, each with its own ETag",
    steps: [
      { ask: PATH, as: "plain", gets: { cache: MISS, headers: { "content-encoding": null } } },
      {
        ask: PATH,
        with: { "accept-encoding": "gzip" },
        as: "gzip",
        gets: { cache: HIT, headers: { "content-encoding": "gzip", vary: "Accept, Accept-Encoding" } },
      },
      {
        ask: PATH,
        with: { "if-none-match": { of: "gzip", header: "etag" } },
        gets: { status: 304, headers: { etag: { of: "plain", header: "etag" } } },
      },
      { asked: 1 },
    ],
  },
  {
    id: "9111-4.1-vary-of-the-gateway",
    title: "Vary is the gateway's own and always the same",
    steps: [
      { upstream: { headers: { vary: "User-Agent, Cookie, Accept-Language" } } },
      {
        ask: PATH,
        with: { "user-agent": "one", cookie: "a=1", "accept-language": "sv" },
        gets: { cache: MISS },
      },
      { asked: 1, lacks: ["cookie", "accept-language"] },
      { ask: PATH, with: { "user-agent": "two" }, gets: { cache: HIT } },
    ],
  },
  {
    id: "9111-4.1-vary-star",
    title: "an answer with Vary: * serves no later request",
    steps: [
      { upstream: { headers: { vary: "*" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.1-vary-star-in-a-list",
    title: "an answer with * among other names in Vary serves no later request",
    steps: [
      { upstream: { headers: { vary: "Accept-Encoding, *" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2 },
    ],
  },
];
