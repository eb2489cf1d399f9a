/**
 * What is given although it has expired: RFC 5861.
 */
import type { Scenario } from "./conformance-vocabulary.ts";

/** Fresh for 300 s, then given for 60 s while it is refreshed, by default. */
const PATH = "/listings?areaId=76&limit=20";
const MISS = "fwd=miss; stored; ttl=300";

export const STALE: readonly Scenario[] = [
  {
    id: "5861-3-at-once",
    title: "an answer that has just expired is given at once, and refreshed while nobody waits",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 310 },
      { revise: true },
      {
        ask: PATH,
        gets: {
          cache: "hit; ttl=-10; detail=stale-while-revalidate",
          age: 310,
          maxAge: 0,
          sameBodyAs: "first",
        },
      },
      { asked: 2 },
      { ask: PATH, eventually: true, gets: { cache: "hit; ttl=300; detail=memory", age: 0 } },
      { ask: PATH, gets: { otherBodyThan: "first" } },
      { asked: 2 },
    ],
  },
  {
    id: "5861-3-validates",
    title: "the refresh asks only whether it has changed",
    steps: [
      { upstream: { validators: "etag" } },
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 310 },
      { ask: PATH, gets: { cache: "hit; ttl=-10; detail=stale-while-revalidate" } },
      { asked: 2, has: ["if-none-match"] },
      { ask: PATH, eventually: true, gets: { cache: "hit; ttl=300; detail=memory" } },
      { ask: PATH, gets: { sameBodyAs: "first" } },
    ],
  },
  {
    id: "5861-3-window",
    title: "for as long as the settings say, and no longer",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 360 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=300" } },
      { asked: 2 },
    ],
  },
  {
    id: "5861-3-last-moment",
    title: "up to the last moment",
    // The refresh has no place, so that it cannot come in between.
    env: { BUDGET: "1/1d" },
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 359.999 },
      { ask: PATH, gets: { cache: "hit; ttl=-60; detail=stale-while-revalidate" } },
      { asked: 1 },
    ],
  },
  {
    id: "5861-3-upstream-shorter",
    title: "or as the upstream says, where that is shorter",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=100, stale-while-revalidate=20" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=100" } },
      { pass: 120 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=100" } },
      { pass: 119 },
      { ask: PATH, gets: { cache: "hit; ttl=-19; detail=stale-while-revalidate" } },
    ],
  },
  {
    id: "5861-3-upstream-longer",
    title: "what the upstream allows beyond that is not made use of",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=100, stale-while-revalidate=3600" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=100" } },
      { pass: 160 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=100" } },
    ],
  },
  {
    id: "5861-3-upstream-forbids",
    title: "and not at all where the upstream says 0, or must-revalidate",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=100, stale-while-revalidate=0" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=100" } },
      { pass: 101 },
      {
        upstream: { headers: { "cache-control": "max-age=100, stale-while-revalidate=60, must-revalidate" } },
      },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=100" } },
      { pass: 101 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=100" } },
      { asked: 3 },
    ],
  },
  {
    id: "5861-3-upstream-says-nothing",
    title: "a lifetime of 0 alone forbids nothing: the settings say what the upstream does not",
    // The refresh has no place, so that it cannot come in between.
    env: { BUDGET: "1/1d" },
    steps: [
      { upstream: { headers: { "cache-control": "max-age=0" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0" } },
      { pass: 1 },
      { ask: PATH, gets: { cache: "hit; ttl=-1; detail=stale-while-revalidate" } },
    ],
  },
  {
    id: "5861-3-stale-when-it-came",
    title: "for what came stale already the upstream's time has begun before",
    steps: [
      { upstream: { headers: { age: "250", "cache-control": "max-age=200, stale-while-revalidate=20" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0", age: 250 } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0", age: 250 } },
    ],
  },
  {
    id: "5861-3-refresh-fails",
    title: "a refresh that fails leaves the stale answer, and is not tried again at every request",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 310 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { cache: "hit; ttl=-10; detail=stale-while-revalidate" } },
      { asked: 3 },
      {
        ask: PATH,
        eventually: true,
        gets: { cache: "hit; ttl=-10; detail=upstream-error" },
      },
      { ask: PATH, gets: { cache: "hit; ttl=-10; detail=upstream-error", sameBodyAs: "first" } },
      { asked: 3 },
    ],
  },
  {
    id: "5861-3-caller-declines",
    title: "a caller that says no-cache, or wants it fresh for a while, waits for the new one",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 310 },
      { ask: PATH, with: { "cache-control": "no-cache" }, gets: { cache: "fwd=stale; stored; ttl=300" } },
      { pass: 310 },
      { ask: PATH, with: { "cache-control": "min-fresh=1" }, gets: { cache: "fwd=stale; stored; ttl=300" } },
    ],
  },
  {
    id: "5861-3-not-found",
    title: "that something is not there is not given so: by now it may be",
    steps: [
      { ask: "/sold/1", gets: { status: 404, cache: "fwd=miss; stored; ttl=60" } },
      { pass: 61 },
      { ask: "/sold/1", gets: { status: 404, cache: "fwd=stale; stored; ttl=60" } },
      { asked: 2 },
    ],
  },
  {
    id: "5861-4-server-error",
    title: "an expired answer stands in where the upstream fails",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 500 } } },
      {
        ask: PATH,
        gets: { cache: "hit; ttl=-700; detail=upstream-error", age: 1000, maxAge: 0, sameBodyAs: "first" },
      },
    ],
  },
  {
    id: "5861-4-unavailable",
    title: "or is not available",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 503, retryAfter: "120" } } },
      { ask: PATH, gets: { cache: "hit; ttl=-700; detail=upstream-unavailable", sameBodyAs: "first" } },
    ],
  },
  {
    id: "5861-4-unusable",
    title: "or gives what cannot be used",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { wrongJson: true } } },
      { ask: PATH, gets: { cache: "hit; ttl=-700; detail=upstream-invalid-response", sameBodyAs: "first" } },
    ],
  },
  {
    id: "5861-4-credentials",
    title: "or refuses the company's credentials",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 403 } } },
      {
        ask: PATH,
        gets: { cache: "hit; ttl=-700; detail=upstream-authentication-failed", sameBodyAs: "first" },
      },
    ],
  },
  {
    id: "5861-4-an-answer",
    title: "what the upstream says of the question itself is no failure",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 404 } } },
      { ask: PATH, gets: { status: 404, cache: "fwd=stale; stored; ttl=60", problem: "not-found" } },
    ],
  },
  {
    id: "5861-4-not-again-at-once",
    title:
      "what has failed is not tried again at every request, and answers again as soon as it was tried and did",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { cache: "hit; ttl=-700; detail=upstream-error" } },
      { asked: 3 },
      { upstream: {} },
      { pass: 4 },
      { ask: PATH, gets: { cache: "hit; ttl=-704; detail=upstream-error" } },
      { asked: 3 },
      { pass: 1 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=300" } },
    ],
  },
  {
    id: "5861-4-settings",
    title: "for as long as the settings say",
    settings: { cache: { staleIfError: { listings: "10m" } } },
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 900 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { cache: "hit; ttl=-600; detail=upstream-error" } },
      { pass: 1 },
      { ask: PATH, gets: { status: 502, problem: "upstream-error" } },
    ],
  },
  {
    id: "5861-4-upstream-shorter",
    title: "or the upstream, where that is shorter",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=100, stale-if-error=200" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=100" } },
      { pass: 300 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { cache: "hit; ttl=-200; detail=upstream-error" } },
      { pass: 1 },
      { ask: PATH, gets: { status: 502, problem: "upstream-error" } },
    ],
  },
  {
    id: "5861-4-upstream-longer",
    title: "what the upstream allows beyond that is not made use of",
    settings: { cache: { staleIfError: { listings: "10m" } } },
    steps: [
      { upstream: { headers: { "cache-control": "max-age=100, stale-if-error=86400" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=100" } },
      { pass: 701 },
      { upstream: { fault: { status: 500 } } },
      { ask: PATH, gets: { status: 502, problem: "upstream-error" } },
    ],
  },
  {
    id: "5861-4-caller-shorter",
    title: "or the caller, where that is shorter; with 0 it gets the failure itself",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 500 } } },
      {
        ask: PATH,
        with: { "cache-control": "stale-if-error=699" },
        gets: { status: 502, problem: "upstream-error" },
      },
      {
        ask: PATH,
        with: { "cache-control": "stale-if-error=0" },
        gets: { status: 502, problem: "upstream-error" },
      },
      {
        ask: PATH,
        with: { "cache-control": "stale-if-error=700" },
        gets: { cache: "hit; ttl=-700; detail=upstream-error" },
      },
    ],
  },
  {
    id: "5861-4-caller-longer",
    title: "a caller gets no staler answer than the settings allow",
    settings: { cache: { staleIfError: { listings: "10m" } } },
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 901 },
      { upstream: { fault: { status: 500 } } },
      {
        ask: PATH,
        with: { "cache-control": "stale-if-error=86400" },
        gets: { status: 502, problem: "upstream-error" },
      },
    ],
  },
];
