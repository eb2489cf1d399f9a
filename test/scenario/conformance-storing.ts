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
    title: "a number of seconds too great to be held is as good as for ever",
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
    title: "a stored answer serves every spelling of its question",
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
    title: "a stored answer serves no other question",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { ask: "/listings?areaId=1,76&limit=21", gets: { cache: MISS, otherBodyThan: "first" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-2-head",
    title: "what HEAD brought serves GET, and the other way round",
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
    title: "a 200 is kept, also where the upstream says nothing of its lifetime",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS, age: 0, maxAge: 300 } },
      { ask: PATH, gets: { cache: HIT, sameBodyAs: "first" } },
      { asked: 1 },
    ],
  },
  {
    id: "9111-3-not-found",
    title: "a 404 is kept for a time of its own",
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
    title: "a 400 of the upstream is kept like a 404, although it is not heuristically cacheable",
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
    title: "a failure of the upstream is not kept",
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
    title: "a redirect is neither kept nor followed",
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
    title: "of the upstream's header fields those about the content are kept, and no others",
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
    title: "what a 304 says of lifetimes takes the place of what was said before",
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
    title: "an answer that was cut off is neither given nor kept",
    steps: [
      { upstream: { fault: { cutBody: true } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-invalid-response" } },
      { upstream: {} },
      { ask: PATH, gets: { cache: MISS } },
    ],
  },
  {
    id: "9111-3.3-partial",
    title: "a 206 is neither given nor kept",
    steps: [
      { upstream: { fault: { status: 206 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-invalid-response" } },
      { upstream: {} },
      { ask: PATH, gets: { cache: MISS } },
    ],
  },
  {
    id: "9111-3.4-range",
    title: "who asks for a range gets the whole, and the upstream is asked for the whole",
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
    title: "a caller's Authorization is nothing to the upstream, and nothing to what is kept",
    steps: [
      { ask: PATH, with: { authorization: "Bearer one" }, as: "first", gets: { cache: MISS } },
      { asked: 1, lacks: ["authorization"] },
      { ask: PATH, with: { authorization: "Bearer two" }, gets: { cache: HIT, sameBodyAs: "first" } },
      { ask: PATH, gets: { cache: HIT, sameBodyAs: "first" } },
    ],
  },
  {
    id: "9111-4-age",
    title: "what was kept says how old it is and how long it is good yet",
    steps: [
      { ask: PATH, gets: { cache: MISS, age: 0, maxAge: 300 } },
      { pass: 17 },
      { ask: PATH, gets: { cache: "hit; ttl=283; detail=memory", age: 17, maxAge: 283 } },
    ],
  },
  {
    id: "9111-4-collapsed",
    title: "who asks the same while the upstream is asked shares its answer",
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
    title: "nothing but GET and HEAD is answered, and nothing else reaches the upstream",
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
    title: "an answer in one format serves nobody who wants the other",
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
    title: "one stored answer serves every content coding, each with a validator of its own",
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
    title: "what the upstream's answer varies by is the gateway's own and always the same",
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
    title: "an answer that varies by everything serves no later request",
    steps: [
      { upstream: { headers: { vary: "*" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2 },
    ],
  },
  {
    id: "9111-4.1-vary-star-in-a-list",
    title: "the same where the star is one of several",
    steps: [
      { upstream: { headers: { vary: "Accept-Encoding, *" } } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { ask: PATH, gets: { cache: "fwd=miss; ttl=0; detail=upstream-no-store" } },
      { asked: 2 },
    ],
  },
];
