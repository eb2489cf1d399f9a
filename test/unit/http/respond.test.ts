import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";

import { describe, expect, it } from "vitest";

import type { Arrival } from "../../../src/http/arrive.ts";
import { createRespond, type RespondOptions } from "../../../src/http/respond.ts";
import { Problem, type ProblemDetails } from "../../../src/errors.ts";
import type { Answer, Entry, GatewayRequest, ShareOfWindow } from "../../../src/types.ts";
import { entryWith } from "../../support/entries.ts";
import { questionWith, requestWith } from "../../support/question.ts";

const NOW = 1_768_478_400_000;
const SHARES: Readonly<Record<string, readonly ShareOfWindow[]>> = {
  "web listings": [{ name: "1m", limit: 30, windowSeconds: 60, remaining: 12, resetSeconds: 7 }],
  // Not to be asked for.
  "web none": [{ name: "1m", limit: 1, windowSeconds: 60, remaining: 1, resetSeconds: 1 }],
  "web images": [{ name: "1h", limit: 100, windowSeconds: 3_600, remaining: 99, resetSeconds: 3_000 }],
};

const OPTIONS: RespondOptions = {
  now: () => NOW,
  encode: async (_key, entry) => entry.bodies.identity ?? Buffer.alloc(0),
  isCompressible: () => false,
  share: (app, resource) => SHARES[`${app} ${resource}`] ?? [],
};
const respond = createRespond(OPTIONS);

function arrivalWith(changes: Partial<Arrival> = {}): Arrival {
  return {
    id: "request-1",
    app: "web",
    receivedAt: NOW,
    startedAt: NOW,
    gone: () => new AbortController().signal,
    hangUp: () => undefined,
    resource: "listings",
    preferenceApplied: undefined,
    query: undefined,
    outcome: "refused",
    tier: undefined,
    problem: undefined,
    trace: undefined,
    ageMs: undefined,
    corsHeaders: undefined,
    bytes: 0,
    ...changes,
  };
}

/** A response that shows its headers, also those that are only written and not set. */
function newResponse(): ServerResponse {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const writeHead = response.writeHead.bind(response);
  return Object.assign(response, {
    writeHead(status: number, head: readonly string[] = []) {
      for (let at = 0; at < head.length; at += 2) response.setHeader(head[at] ?? "", head[at + 1] ?? "");
      return writeHead(status);
    },
  });
}

const QUESTION = questionWith(requestWith(NOW, { app: "web" }));

function answerWith(changes: Partial<Answer> = {}): Answer {
  const entry = entryWith("{}", NOW - 1_000);
  const kept = { entry, tier: "memory", stored: true } as const;
  return { ...kept, outcome: "hit", forwarded: undefined, note: undefined, ...changes };
}

const TERMS = { "ratelimit-policy": '"1m";q=30;w=60', ratelimit: '"1m";r=12;t=7' };

describe("an app's share", () => {
  it.each<[string, Partial<Answer>]>([
    ["a hit", {}],
    ["a miss", { outcome: "miss", tier: undefined, forwarded: "miss" }],
    ["a stale answer", { outcome: "stale", note: "quota-exceeded" }],
  ])("is told with %s", async (_name, changes) => {
    const response = newResponse();
    await respond.answer(arrivalWith(), QUESTION, answerWith(changes), response);
    expect(response.getHeaders()).toMatchObject(TERMS);
  });

  it("is told with 304", async () => {
    const response = newResponse();
    const question = { ...QUESTION, request: { ...QUESTION.request, ifNoneMatch: "*" } };
    await respond.answer(arrivalWith(), question, answerWith(), response);
    expect([response.statusCode, response.getHeaders()]).toMatchObject([304, TERMS]);
  });

  it("is told with a stream and with a problem", () => {
    const streamed = newResponse();
    respond.stream(arrivalWith(), QUESTION, streamed).start({});
    expect(streamed.getHeaders()).toMatchObject(TERMS);
    const failed = newResponse();
    respond.problem(arrivalWith(), new Problem("upstream-error"), failed);
    expect([failed.statusCode, failed.getHeaders()]).toMatchObject([502, TERMS]);
  });

  it.each(["quota-exceeded", "temporary-reduced-capacity"] as const)(
    "has nothing left where the budget is why a request is refused: %s",
    (code) => {
      const response = newResponse();
      respond.problem(arrivalWith(), new Problem(code, { retryAfterSeconds: 9 }), response);
      expect(response.getHeaders()).toMatchObject({
        "ratelimit-policy": TERMS["ratelimit-policy"],
        ratelimit: '"1m";r=0;t=9',
        "retry-after": "9",
      });
    },
  );

  it("is that of the budget which pays for the resource", () => {
    const response = newResponse();
    respond.problem(arrivalWith({ resource: "images" }), new Problem("invalid-query"), response);
    expect(response.getHeader("ratelimit")).toBe('"1h";r=99;t=3000');
  });

  it.each([
    ["where there is none", { app: "other" }],
    ["where the request led nowhere", { resource: "none" as const }],
  ])("is not told of %s", (_name, changes) => {
    const response = newResponse();
    respond.problem(arrivalWith(changes), new Problem("unknown-path"), response);
    expect(response.getHeaderNames().filter((name) => name.startsWith("ratelimit"))).toEqual([]);
  });
});

describe("Retry-After", () => {
  it.each([
    ["upstream-unreachable", { retryAfter: "30" }],
    ["deadline-exceeded", { retryAfter: "30" }],
    ["upstream-rejected", { retryAfter: undefined }],
  ] as const)("says when the upstream is asked again: %s", (code, { retryAfter }) => {
    const response = newResponse();
    const informed = createRespond({ ...OPTIONS, retryAfterSeconds: () => 30 });
    informed.problem(arrivalWith(), new Problem(code), response);
    expect(response.getHeader("retry-after")).toBe(retryAfter);
  });
});

describe("Cache-Status", () => {
  it.each<[string, Partial<Answer>, Partial<Entry>, string]>([
    ["a hit", {}, {}, "hit; ttl=59; KEY; detail=memory"],
    [
      "an expired answer while it is refreshed",
      { outcome: "updating", note: "stale-while-revalidate" },
      { freshUntil: NOW - 7_000 },
      "hit; ttl=-7; KEY; detail=stale-while-revalidate",
    ],
    [
      "an expired answer that the caller accepts",
      { outcome: "stale", note: "max-stale" },
      { freshUntil: NOW - 7_000 },
      "hit; ttl=-7; KEY; detail=max-stale",
    ],
    [
      "a purged answer",
      { outcome: "stale", note: "upstream-error" },
      {},
      "hit; ttl=0; KEY; detail=upstream-error",
    ],
    [
      "a fresh answer to one who wanted a newer one",
      { note: "refresh-not-allowed" },
      {},
      "hit; ttl=59; KEY; detail=refresh-not-allowed",
    ],
    [
      "an answer where nothing was held",
      { outcome: "miss", forwarded: "miss", tier: undefined },
      {},
      "fwd=miss; fwd-status=200; stored; ttl=59; KEY",
    ],
    [
      "an answer where the one held was stale",
      { outcome: "miss", forwarded: "stale", tier: undefined },
      {},
      "fwd=stale; fwd-status=200; stored; ttl=59; KEY",
    ],
    [
      "an answer that a caller asked to be newer, and others waited for",
      { outcome: "collapsed", forwarded: "request", tier: undefined },
      {},
      "fwd=request; fwd-status=200; collapsed; stored; ttl=59; KEY",
    ],
    [
      "an answer that the upstream does not want kept",
      { outcome: "miss", forwarded: "miss", tier: undefined, stored: "upstream-no-store" },
      {},
      "fwd=miss; fwd-status=200; ttl=0; KEY; detail=upstream-no-store",
    ],
    [
      "a refusal of the upstream",
      { outcome: "miss", forwarded: "miss", tier: undefined },
      { status: 400 },
      "fwd=miss; fwd-status=400; stored; ttl=59; KEY",
    ],
  ])("of %s", async (_name, answer, entry, expected) => {
    const response = newResponse();
    const held = entryWith("{}", NOW - 1_000, entry);
    await respond.answer(arrivalWith(), QUESTION, answerWith({ entry: held, ...answer }), response);
    const written = expected.replace("KEY", 'key="listings?offset=0"');
    expect(response.getHeader("cache-status")).toBe(`property-gateway; ${written}`);
  });
});

it("callers are not told to keep an answer that the upstream does not want kept", async () => {
  const response = newResponse();
  const answer = answerWith({ entry: entryWith("{}", NOW), outcome: "miss", stored: "upstream-no-store" });
  await respond.answer(arrivalWith(), QUESTION, answer, response);
  expect(response.getHeader("cache-control")).toBe("no-store");
});

describe("a caller that has an answer from a date", () => {
  const AT_ELEVEN = "Thu, 15 Jan 2026 11:00:00 GMT";

  it.each<[string, Partial<GatewayRequest>, string | undefined, number]>([
    ["the same as the answer's", { ifModifiedSince: AT_ELEVEN }, AT_ELEVEN, 304],
    ["later than it", { ifModifiedSince: "Thu, 15 Jan 2026 11:00:01 GMT" }, AT_ELEVEN, 304],
    ["before it", { ifModifiedSince: "Thu, 15 Jan 2026 10:59:59 GMT" }, AT_ELEVEN, 200],
    ["that is none", { ifModifiedSince: "yesterday" }, AT_ELEVEN, 200],
    ["that is none of HTTP's", { ifModifiedSince: "2099" }, AT_ELEVEN, 200],
    ["where the answer has none", { ifModifiedSince: AT_ELEVEN }, undefined, 200],
    [
      "and another version by its tag, which counts",
      { ifModifiedSince: AT_ELEVEN, ifNoneMatch: '"x"' },
      AT_ELEVEN,
      200,
    ],
  ])("%s (%o, of %s) gets %i", async (_name, conditions, lastModified, status) => {
    const response = newResponse();
    const entry = entryWith("{}", NOW - 1_000, { validators: { etag: undefined, lastModified } });
    const question = questionWith(requestWith(NOW, conditions));
    await respond.answer(arrivalWith(), question, answerWith({ entry }), response);
    expect([response.statusCode, response.getHeader("last-modified")]).toEqual([status, lastModified]);
  });
});

it("an answer's age counts from when the upstream made it", async () => {
  const response = newResponse();
  const entry = entryWith("{}", NOW - 1_000, { bornAt: NOW - 61_000 });
  await respond.answer(arrivalWith(), QUESTION, answerWith({ entry }), response);
  expect(response.getHeaders()).toMatchObject({ age: "61", "cache-control": "max-age=59" });
});

describe("a preference that was applied", () => {
  it("is told with an answer, a stream and a problem", async () => {
    const arrival = arrivalWith({ preferenceApplied: "wait=2" });
    const responses = [newResponse(), newResponse(), newResponse()] as const;
    await respond.answer(arrival, QUESTION, answerWith(), responses[0]);
    respond.stream(arrival, QUESTION, responses[1]).start({});
    respond.problem(arrival, new Problem("deadline-exceeded"), responses[2]);
    expect(responses.map((response) => response.getHeader("preference-applied"))).toEqual([
      "wait=2",
      "wait=2",
      "wait=2",
    ]);
  });

  it("is not told of where there was none", async () => {
    const response = newResponse();
    await respond.answer(arrivalWith(), QUESTION, answerWith(), response);
    expect(response.hasHeader("preference-applied")).toBe(false);
  });
});

describe("what a problem says of how the request went", () => {
  it.each<[string, Problem["code"], ProblemDetails, string, string]>([
    ["an app's share is used up", "quota-exceeded", {}, "refused", "detail=quota-exceeded"],
    [
      "the budget has no place",
      "temporary-reduced-capacity",
      {},
      "refused",
      "detail=temporary-reduced-capacity",
    ],
    [
      "the upstream is left alone",
      "upstream-unavailable",
      { refusedHere: true },
      "refused",
      "detail=upstream-unavailable",
    ],
    ["only what is held was wanted", "not-in-cache", {}, "refused", "detail=not-in-cache"],
    ["the upstream failed", "upstream-error", {}, "failed", "fwd=miss; detail=upstream-error"],
    ["the upstream knows no such record", "not-found", {}, "miss", "fwd=miss; detail=not-found"],
  ])("%s", (_name, code, details, outcome, cacheStatus) => {
    const [arrival, response] = [arrivalWith(), newResponse()];
    respond.problem(arrival, new Problem(code, details), response);
    expect([arrival.outcome, response.getHeader("cache-status")]).toEqual([
      outcome,
      `property-gateway; ${cacheStatus}`,
    ]);
  });
});
