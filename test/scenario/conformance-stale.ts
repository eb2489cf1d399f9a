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
    title: "an answer that has just expired is served at once and refreshed in the background",
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
    title: "the refresh is a conditional request",
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
    title: "a stale answer is served for staleWhileRevalidate of the settings",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 360 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=300" } },
      { asked: 2 },
    ],
  },
  {
    id: "5861-3-last-moment",
    title: "a stale answer is served until the last moment of that time",
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
    title: "a shorter stale-while-revalidate of the upstream counts",
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
    title: "a longer stale-while-revalidate of the upstream is ignored",
    steps: [
      { upstream: { headers: { "cache-control": "max-age=100, stale-while-revalidate=3600" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=100" } },
      { pass: 160 },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=100" } },
    ],
  },
  {
    id: "5861-3-upstream-forbids",
    title: "with stale-while-revalidate=0 or must-revalidate, no stale answer is served",
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
    title: "max-age=0 alone does not forbid stale answers",
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
    title: "for an answer that arrives stale, the upstream's time has already begun",
    steps: [
      { upstream: { headers: { age: "250", "cache-control": "max-age=200, stale-while-revalidate=20" } } },
      { ask: PATH, gets: { cache: "fwd=miss; stored; ttl=0", age: 250 } },
      { ask: PATH, gets: { cache: "fwd=stale; stored; ttl=0", age: 250 } },
    ],
  },
  {
    id: "5861-3-refresh-fails",
    title: "a refresh that fails leaves the stale answer, and is not repeated at every request",
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
    title: "a caller with no-cache or min-fresh waits for the new answer",
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
    title: "a 404 is not served stale while it is refreshed",
    steps: [
      { ask: "/sold/1", gets: { status: 404, cache: "fwd=miss; stored; ttl=60" } },
      { pass: 61 },
      { ask: "/sold/1", gets: { status: 404, cache: "fwd=stale; stored; ttl=60" } },
      { asked: 2 },
    ],
  },
  {
    id: "5861-4-server-error",
    title: "a stale answer is served if the upstream answers 500",
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
    title: "a stale answer is served if the upstream answers 503",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 503, retryAfter: "120" } } },
      { ask: PATH, gets: { cache: "hit; ttl=-700; detail=upstream-unavailable", sameBodyAs: "first" } },
    ],
  },
  {
    id: "5861-4-unusable",
    title: "a stale answer is served if the upstream's answer is unusable",
    steps: [
      { ask: PATH, as: "first", gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { wrongJson: true } } },
      { ask: PATH, gets: { cache: "hit; ttl=-700; detail=upstream-invalid-response", sameBodyAs: "first" } },
    ],
  },
  {
    id: "5861-4-credentials",
    title: "a stale answer is served if the upstream refuses the credentials",
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
    title: "a 404 or 400 of the upstream is not a failure",
    steps: [
      { ask: PATH, gets: { cache: MISS } },
      { pass: 1000 },
      { upstream: { fault: { status: 404 } } },
      { ask: PATH, gets: { status: 404, cache: "fwd=stale; stored; ttl=60", problem: "not-found" } },
    ],
  },
  {
    id: "5861-4-not-again-at-once",
    title: "a failed call is not repeated at every request, and a later success is served",
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
    title: "a stale answer is served for staleIfError of the settings",
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
    title: "a shorter stale-if-error of the upstream counts",
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
    title: "a longer stale-if-error of the upstream is ignored",
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
    title: "a shorter stale-if-error of the caller counts; with 0 it gets the failure",
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
    title: "a longer stale-if-error of the caller is ignored",
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
