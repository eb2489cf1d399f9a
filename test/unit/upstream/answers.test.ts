/**
 * The contract: what the upstream answers, and what the caller gets. This is the place to look up every verdict.
 */
import { gzipSync } from "node:zlib";

import nock from "nock";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Fetched } from "../../../src/upstream/verdict.ts";
import type { SendEnd, Throttled } from "../../../src/ratelimit/call-facts.ts";
import { type AskedOf, askedOf, attempting, LIMITS, LISTINGS, PAGE, NO_DEADLINE } from "./support.ts";

const UPSTREAM = "http://upstream.test";

beforeEach(() => nock.disableNetConnect());
afterEach(() => {
  nock.cleanAll();
  nock.enableNetConnect();
});

interface Answer {
  readonly status: number;
  readonly body?: string | Buffer;
  readonly headers?: Record<string, string>;
}

/** Asks one question of an upstream with these answers. */
async function asked(answers: readonly Answer[], question = LISTINGS) {
  const heads: Record<string, string>[] = [];
  const ends: SendEnd[] = [];
  for (const { status, body = "", headers = {} } of answers) {
    nock(UPSTREAM)
      .get(() => true)
      .reply((request: Request) => {
        heads.push(Object.fromEntries(request.headers));
        return [status, body, headers];
      });
  }
  const throttled: Throttled = (_order, job) => job((end) => void ends.push(end), {});
  const { attempt, watcher } = attempting({ baseUrl: UPSTREAM, throttled });
  const result = await attempt(question, NO_DEADLINE).catch((error: unknown) => {
    if (error instanceof Problem) return error;
    throw error;
  });
  return { result, heads, ends, watcher };
}

/** For example `502 upstream-error, Retry-After 5` or `404: No such area`. */
function inBrief(result: Fetched | Problem): string {
  if (result instanceof Problem) {
    const { retryAfterSeconds: wait } = result.details;
    return `${result.status} ${result.code}${wait === undefined ? "" : `, Retry-After ${wait}`}`;
  }
  if (result.status === 304) return "the cached answer";
  const { detail } = Object(JSON.parse(result.body.toString()));
  return result.status === 200 ? "the body" : `${result.status}: ${detail}`;
}

const JSON_TYPE = { "content-type": "application/json" };
const UNUSABLE = "502 upstream-invalid-response";
const AGAIN_IN_5 = "503 upstream-unavailable, Retry-After 5";
const HTTP_DATE = new Date(Date.now() + 3_600_000_000).toUTCString();
const SLOW_CLOCK = { date: "Thu, 15 Jan 2026 11:00:00 GMT", "retry-after": "Thu, 15 Jan 2026 11:00:30 GMT" };

const NO_ANSWERS = ['{"listings":{}}', '{"error":"no"}', "[]", "null", PAGE.slice(0, -2), ""];

type Row = readonly [number, Record<string, string>, string, string, number];

/** Status, headers, body; what the caller gets; how many calls were made. The upstream answers each call alike. */
const TABLE: readonly Row[] = [
  [200, JSON_TYPE, PAGE, "the body", 1],
  [200, { "content-type": "text/html" }, PAGE, "the body", 1],
  [200, JSON_TYPE, '{"listings":[]}', "the body", 1],
  [200, JSON_TYPE, `\uFEFF${PAGE}`, "the body", 1],
  [200, JSON_TYPE, '{"count":"1","listings":[{}]}', "the body", 1],
  [200, JSON_TYPE, '{"count":2,"listings":[{}]}', UNUSABLE, 1],
  [200, JSON_TYPE, '{"count":0,"sold":[]}', UNUSABLE, 1],
  ...NO_ANSWERS.map((body): Row => [200, JSON_TYPE, body, UNUSABLE, 1]),
  ...[201, 206, 301, 405, 406, 412, 418, 502, 504].map((status): Row => [status, {}, PAGE, UNUSABLE, 1]),
  [204, {}, "", UNUSABLE, 1],
  [304, {}, "", UNUSABLE, 1],
  [400, {}, "FAILURE_MISSING_PARAM - areaId", "400: FAILURE_MISSING_PARAM - areaId", 1],
  [400, {}, '{"message":"Bad"}', "400: Bad", 1],
  [400, {}, "<html>", "400: undefined", 1],
  [401, {}, "", "502 upstream-authentication-failed", 1],
  [403, JSON_TYPE, "FAILURE_HASH - no", "502 upstream-authentication-failed", 1],
  [404, {}, "No such area", "404: No such area", 1],
  [429, {}, "", AGAIN_IN_5, 1],
  [429, { "retry-after": "30" }, "", "503 upstream-unavailable, Retry-After 30", 1],
  [429, SLOW_CLOCK, "", "503 upstream-unavailable, Retry-After 30", 1],
  [500, {}, PAGE, "502 upstream-error, Retry-After 5", 2],
  [503, {}, "", AGAIN_IN_5, 2],
  ...["soon", "1.5", "5, 10"].map((odd): Row => [503, { "retry-after": odd }, "", AGAIN_IN_5, 2]),
  [503, { "retry-after": "0" }, "", "503 upstream-unavailable, Retry-After 1", 1],
  [503, { "retry-after": " 120 " }, "", "503 upstream-unavailable, Retry-After 120", 1],
  // At most budget.maxCoolOff, an hour here.
  [503, { "retry-after": "3601" }, "", "503 upstream-unavailable, Retry-After 3600", 1],
  [503, { "retry-after": HTTP_DATE }, "", "503 upstream-unavailable, Retry-After 3600", 1],
];

it.each(TABLE)("%i %o %s becomes %s, after %i call(s)", async (status, headers, body, expected, calls) => {
  const answer = { status, headers, body };
  const { result, heads } = await asked([answer, answer, answer]);
  expect([inBrief(result), heads.length]).toEqual([expected, calls]);
});

const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 1, 2, 3, 0xff, 0xd9]);
const record = askedOf({ kind: "record", resource: "listings", serviceId: "7", extras: [] });
const size = { width: "9", height: "9" };
const image = askedOf({ kind: "image", resource: "images", serviceId: "7", ...size, extras: [] }, "jpeg");

it.each<[AskedOf, string | Buffer, boolean]>([
  [record, '{"listings":[{"serviceId":7}]}', true],
  [record, '{"listings":[{"serviceId":"7"}]}', true],
  [record, '{"listings":[{}]}', true],
  [record, '{"listings":[{"serviceId":8}]}', false],
  [record, '{"listings":[]}', false],
  [record, '{"listings":[{"serviceId":7},{"serviceId":7}]}', false],
  [record, '{"listings":[7]}', false],
  [image, JPEG, true],
  [image, JPEG.subarray(0, -1), false],
  [image, JPEG.subarray(1), false],
  [image, PAGE, false],
])("a record, and a thumbnail %#: of this body is an answer or not", async (question, body, isAnswer) => {
  const { result } = await asked([{ status: 200, body }], question);
  expect(result.status).toBe(isAnswer ? 200 : 502);
});

describe("the answer", () => {
  it.each([
    ["application/json; charset=utf-8", "application/json; charset=utf-8"],
    ["application/vnd.propertyservice-v2+json", "application/vnd.propertyservice-v2+json"],
    ["text/html", "application/json; charset=utf-8"],
    ["application/jsonp", "application/json; charset=utf-8"],
  ])("with Content-Type %s has %s, and its body byte for byte", async (given, contentType) => {
    const body = ' {"count":1, "listings":[{"a":"http:\\/\\/x","b":"\\u00e4"}]}\n';
    const { result } = await asked([{ status: 200, body, headers: { "content-type": given } }]);
    expect(result).toMatchObject({ contentType, body: Buffer.from(body) });
  });

  it.each([
    [429, undefined, { cause: "too-many-requests", forMs: undefined }],
    [429, "7", { cause: "too-many-requests", forMs: 7_000 }],
    [503, "7", { cause: "unavailable", forMs: 7_000 }],
    [500, "7", undefined],
    [404, "7", undefined],
  ])("%i with Retry-After %s asks for the pause %o", async (status, wait, slowDown) => {
    const headers = wait === undefined ? {} : { "retry-after": wait };
    const { ends } = await asked([500, 500].map(() => ({ status, headers })));
    expect(ends[0]?.slowDown).toEqual(slowDown);
  });

  it.each([{ date: "yesterday" }, {}])(
    "that refuses our key with the headers %o: the clock skew is unknown",
    async (headers) => {
      const { watcher } = await asked([{ status: 403, headers }]);
      expect(watcher.errors).toMatchObject([{ fields: { clockSkewSeconds: "unknown" } }]);
    },
  );

  it.each([401, 403, 405, 406, 500, 503])("%i has its explanation in the log", async (status) => {
    const answer = { status, body: "FAILURE_X - because" };
    const { watcher } = await asked([answer, answer]);
    expect(watcher.calls[0]?.note).toBe(`the upstream answered ${status}: FAILURE_X - because`);
    const explanations = watcher.errors.map(({ fields }) => fields["explanation"]);
    expect(explanations).toEqual(status < 404 ? ["FAILURE_X - because"] : []);
  });

  it.each<Record<string, string>>([{ etag: "*" }, { etag: "unquoted" }, { "last-modified": "2099" }])(
    "drops a malformed validator: %o",
    async (headers) => {
      const { result } = await asked([{ status: 200, body: PAGE, headers }]);
      expect(result).toMatchObject({ validators: { etag: undefined, lastModified: undefined } });
    },
  );
});

it.each([
  [[500, 503, 200], AGAIN_IN_5],
  [[503, 500, 200], "502 upstream-error, Retry-After 5"],
  [[500, 404], "404: undefined"],
  [[500, 200], "the body"],
])("an upstream that fails for a moment, %j, is retried once: %s", async (statuses, expected) => {
  const body = (status: number): string => (status === 404 ? "" : PAGE);
  const { result, heads } = await asked(statuses.map((status) => ({ status, body: body(status) })));
  expect([inBrief(result), heads.length]).toEqual([expected, 2]);
});

describe("a conditional request", () => {
  const DATE = "Thu, 15 Jan 2026 11:00:00 GMT";
  const [strong, weak, date] = [
    { etag: '"a"', lastModified: undefined },
    { etag: 'W/"a"', lastModified: DATE },
    { etag: undefined, lastModified: DATE },
  ];

  it.each([
    [strong, undefined, "the cached answer"],
    [strong, '"a"', "the cached answer"],
    [strong, 'W/"a"', "the cached answer"],
    [weak, '"a"', "the cached answer"],
    [date, '"b"', "the cached answer"],
    [strong, '"b"', "the body"],
  ])("with %o, answered 304 with the tag %s, gives %s", async (cached, etag, expected) => {
    const unchanged = { status: 304, headers: etag === undefined ? {} : { etag } };
    const { result, heads } = await asked([unchanged, { status: 200, body: PAGE }], { ...LISTINGS, cached });
    expect(inBrief(result)).toBe(expected);
    // A 304 for another answer is asked again, without the condition.
    const conditions = heads.map((head) => head["if-none-match"] ?? head["if-modified-since"]);
    const first = cached.etag ?? cached.lastModified;
    expect(conditions).toEqual(expected === "the body" ? [first, undefined] : [first]);
  });

  it("is retried without the condition after a failure", async () => {
    const question = { ...LISTINGS, cached: strong };
    const { heads } = await asked([{ status: 500 }, { status: 200, body: PAGE }], question);
    expect(heads.map((head) => head["if-none-match"])).toEqual(['"a"', undefined]);
  });
});

const whole = gzipSync(PAGE);
const largest = PAGE.padEnd(LIMITS.maxBodyBytes, " ");
/** The same body, but its last four bytes contain another length. */
const named = (length: number): Buffer => {
  const bytes = Buffer.from(whole);
  bytes.writeUInt32LE(length, bytes.length - 4);
  return bytes;
};

it.each<[string, string, string | Buffer, number | string]>([
  ["as it is", "gzip", whole, 200],
  ["in capitals", "GZIP", whole, 200],
  ["of the old name", "x-gzip", whole, 200],
  ["in several members", "gzip", Buffer.concat([gzipSync(PAGE.slice(0, 9)), gzipSync(PAGE.slice(9))]), 200],
  ["before an empty member", "gzip", Buffer.concat([whole, gzipSync("")]), 200],
  ["as large as upstream.maxBody", "gzip", gzipSync(largest), 200],
  ["none", "identity", PAGE, 200],
  ["none, and as large as upstream.maxBody", "", largest, 200],
  ["none, and too large", "", `${largest} `, "too-large"],
  ["small, but a bomb", "gzip", gzipSync(`${largest} `), "too-large"],
  ["broken", "gzip", "not gzip at all", "bad-encoding"],
  ["cut short", "gzip", whole.subarray(0, -9), "bad-encoding"],
  ["of a few bytes", "gzip", whole.subarray(0, 3), "bad-encoding"],
  ["that names a huge length", "gzip", named(0xffff_ffff), "bad-encoding"],
  ["that names no length", "gzip", named(0), "bad-encoding"],
  ["unknown", "br", PAGE, "bad-encoding"],
  ["twice", "gzip, gzip", gzipSync(whole), "bad-encoding"],
])("a body in a coding %s (%s) is decoded, or refused without retry", async (_name, coding, body, status) => {
  const answer = { status: 200, body, headers: { "content-encoding": coding } };
  const { result, watcher } = await asked([answer, answer]);
  expect(inBrief(result)).toBe(status === 200 ? "the body" : UNUSABLE);
  expect(watcher.calls.map((call) => call.status)).toEqual([status]);
});
