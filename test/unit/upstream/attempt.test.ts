import { gzipSync } from "node:zlib";
import nock from "nock";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Fetched, UpstreamCallRecord } from "../../../src/exchange.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { systemRandom } from "../../../src/platform/random.ts";
import { createAttempt, type UpstreamQuestion } from "../../../src/upstream/attempt.ts";
import { createOrigin } from "../../../src/upstream/origin.ts";

const BASE = "http://upstream.example";
const BODY = '{"totalCount":1,"count":1,"areas":[{"serviceId":76,"name":"Nacka"}],"limit":30}';
const QUESTION: UpstreamQuestion = {
  resource: "areas",
  text: "areas?q=Nacka",
  target: "/areas?q=Nacka",
  single: false,
  format: "json",
};

interface Attempted {
  readonly calls: UpstreamCallRecord[];
  readonly errors: string[];
  readonly attempt: (question?: Partial<UpstreamQuestion>) => Promise<Fetched>;
}

function setup(): Attempted {
  const calls: UpstreamCallRecord[] = [];
  const errors: string[] = [];
  let signature = 0;
  const origin = createOrigin({
    baseUrl: BASE,
    connections: 2,
    throttled: (job) => job(),
    sign: (target) => `${target}&signature=${++signature}`,
    clock: systemClock,
    connectTimeoutMs: 1_000,
    headerTimeoutMs: 1_000,
    bodyTimeoutMs: 1_000,
    maxBodyBytes: 1_000,
  });
  const attempt = createAttempt({
    originOf: () => origin,
    identity: { service: "propertyservice", userAgent: "Company/1.0", referrer: "https://company.example/" },
    hosts: ["upstream.example"],
    totalTimeoutMs: 5_000,
    retryDelayMs: 1,
    clock: systemClock,
    random: systemRandom,
    observer: {
      request: () => undefined,
      upstreamCall: (record) => void calls.push(record),
      info: () => undefined,
      warn: () => undefined,
      error: (message) => void errors.push(message),
    },
  });
  const waiting = { abandoned: new AbortController().signal, deadlineAt: () => Number.POSITIVE_INFINITY };
  return { calls, errors, attempt: (question) => attempt({ ...QUESTION, ...question }, waiting) };
}

/** The code, status and internal reason of the problem that an attempt ends in. */
async function problemOf(attempted: Promise<unknown>): Promise<Problem> {
  const error: unknown = await attempted.then(
    () => "no problem at all",
    (reason: unknown) => reason,
  );
  if (!(error instanceof Problem)) throw new Error(`expected a problem, got ${String(error)}`);
  return error;
}

const upstream = (signature = 1): nock.Interceptor => nock(BASE).get(`/areas?q=Nacka&signature=${signature}`);

beforeEach(() => nock.disableNetConnect());
afterEach(() => {
  const left = nock.pendingMocks();
  nock.cleanAll();
  nock.enableNetConnect();
  expect(left).toEqual([]);
});

describe("an attempt", () => {
  it("says who asks, in which format, and takes the body as it is", async () => {
    nock(BASE, {
      reqheaders: {
        accept: "application/vnd.propertyservice-v2+json",
        "user-agent": "Company/1.0",
        referer: "https://company.example/",
        referrer: "https://company.example/",
      },
      badheaders: ["cookie", "authorization", "x-forwarded-for"],
    })
      .get("/areas?q=Nacka&signature=1")
      .reply(200, BODY, {
        "content-type": "application/json; charset=utf-8",
        "set-cookie": "a=b",
        "last-modified": "yesterday",
      });
    const fetched = await setup().attempt({ format: "v2" });
    expect(fetched).toEqual({
      status: 200,
      body: Buffer.from(BODY),
      contentType: "application/json; charset=utf-8",
      lastModified: "yesterday",
      recordIds: ["76"],
    });
  });

  it("reads a compressed body", async () => {
    upstream().reply(200, gzipSync(BODY), { "content-encoding": "gzip" });
    expect((await setup().attempt()).body.toString()).toBe(BODY);
  });

  it.each<[string, number, string | Buffer, Record<string, string>, string]>([
    ["no JSON", 200, "<html>", {}, "the body is not JSON"],
    ["a list of nothing known", 200, '{"listings":[]}', {}, "envelope: array of records missing"],
    ["an array", 200, "[]", {}, "envelope: not an object"],
    [
      "another number of records than it says",
      200,
      '{"count":2,"areas":[{}]}',
      {},
      "envelope: count is not the number of records",
    ],
    ["more than is allowed", 200, "x".repeat(1_001), {}, "too-large: too-large"],
    [
      "a bomb",
      200,
      gzipSync(Buffer.alloc(100_000)),
      { "content-encoding": "gzip" },
      "too-large: the gzip body cannot be decoded",
    ],
    [
      "broken gzip",
      200,
      "not gzip",
      { "content-encoding": "gzip" },
      "bad-encoding: the gzip body cannot be decoded",
    ],
    [
      "a coding nobody asked for",
      200,
      BODY,
      { "content-encoding": "br" },
      "bad-encoding: a content coding that was not asked for",
    ],
    ["no content", 204, "", {}, "the upstream answered 204"],
    ["a redirect", 301, "", { location: "http://elsewhere.example/" }, "the upstream answered 301"],
    ["a status nobody knows", 418, "", {}, "the upstream answered 418"],
  ])(
    "that brings %s ends in a problem, and is not repeated",
    async (_name, status, body, headers, reason) => {
      upstream().reply(status, body, headers);
      const { attempt, calls } = setup();
      const problem = await problemOf(attempt());
      expect([problem.code, problem.details.internal]).toEqual(["upstream-invalid-response", reason]);
      expect(calls).toHaveLength(1);
    },
  );

  it.each([
    ['{"listings":[{"serviceId":1}]}', true],
    ['{"listings":[]}', false],
    ['{"listings":[{},{}]}', false],
  ])("for one record takes %s: %s", async (body, good) => {
    nock(BASE).get("/listings/1?x&signature=1").reply(200, body);
    const attempted = setup().attempt({ resource: "listings", single: true, target: "/listings/1?x" });
    if (good) expect((await attempted).body.toString()).toBe(body);
    else expect((await problemOf(attempted)).code).toBe("upstream-invalid-response");
  });

  it.each([
    [Buffer.from([0xff, 0xd8, 1, 2, 0xff, 0xd9]), true],
    [Buffer.from([0xff, 0xd8, 1, 2]), false],
    [Buffer.from("GIF89a"), false],
  ])("for a thumbnail takes a whole JPEG only", async (body, good) => {
    nock(BASE).get("/cache/x.jpg?&signature=1").reply(200, body);
    const attempted = setup().attempt({ resource: "images", format: "jpeg", target: "/cache/x.jpg?" });
    if (good) expect(await attempted).toMatchObject({ contentType: "image/jpeg", body });
    else expect((await problemOf(attempted)).code).toBe("upstream-invalid-response");
  });

  it.each([500, 503])("that meets %i is repeated once, signed afresh", async (status) => {
    upstream(1).reply(status, "no");
    upstream(2).reply(200, BODY);
    const { attempt, calls } = setup();
    expect((await attempt()).body.toString()).toBe(BODY);
    expect(calls.map(({ cause, status: seen }) => [cause, seen])).toEqual([
      ["miss", status],
      ["retry", 200],
    ]);
  });

  it.each([
    [500, "upstream-error", 5],
    [503, "upstream-unavailable", 5],
  ] as const)("that meets %i twice gives up with %s", async (status, code, retryAfterSeconds) => {
    upstream(1).reply(status);
    upstream(2).reply(status);
    const problem = await problemOf(setup().attempt());
    expect([problem.code, problem.details.retryAfterSeconds]).toEqual([code, retryAfterSeconds]);
  });

  it("that is told how long to wait does not come back before", async () => {
    upstream().reply(503, "", { "retry-after": "17" });
    expect((await problemOf(setup().attempt())).details.retryAfterSeconds).toBe(17);
  });

  it.each([401, 403])("refused with %i tells the operators what to check, once", async (status) => {
    upstream().reply(status, "FAILURE", { date: "Thu, 01 Jan 2026 00:00:00 GMT" });
    const { attempt, errors } = setup();
    expect((await problemOf(attempt())).code).toBe("upstream-authentication-failed");
    expect(errors).toEqual([expect.stringContaining("upstream.callerId")]);
  });

  it("for what is not there brings the 404 with the upstream's words", async () => {
    upstream().reply(404, "No such thing");
    const fetched = await setup().attempt();
    expect([fetched.status, JSON.parse(fetched.body.toString())]).toMatchObject([
      404,
      { detail: "No such thing" },
    ]);
  });

  it("that breaks off names the system's code and no address", async () => {
    upstream().replyWithError(
      Object.assign(new Error("connect ECONNREFUSED 10.1.2.3:80"), { code: "ECONNREFUSED" }),
    );
    const { attempt, calls } = setup();
    const problem = await problemOf(attempt());
    expect([problem.code, problem.message]).toEqual(["upstream-unreachable", "unreachable: ECONNREFUSED"]);
    expect(calls[0]?.status).toBe("unreachable");
  });
});
