import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";

import nock from "nock";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { Problem } from "../../../src/errors.ts";
import type { Fetched } from "../../../src/types.ts";
import type { UpstreamQuestion } from "../../../src/upstream/attempt.ts";
import { wholeAnswer } from "../../../src/upstream/fetch.ts";
import { attempting, LIMITS, LISTINGS, PAGE, NO_DEADLINE } from "./support.ts";

const UPSTREAM = "http://upstream.test";

beforeEach(() => nock.disableNetConnect());
afterEach(() => {
  nock.cleanAll();
  nock.enableNetConnect();
});

/** Asks one question of an upstream with these answers. */
async function asked(
  answers: { status: number; body?: string | Buffer; headers?: Record<string, string> }[],
  question: UpstreamQuestion = LISTINGS,
): Promise<{
  result: Fetched | Problem;
  times: number;
  queries: URLSearchParams[];
  heads: Record<string, string>[];
  watcher: ReturnType<typeof attempting>["watcher"];
}> {
  const queries: URLSearchParams[] = [];
  const heads: Record<string, string>[] = [];
  for (const { status, body = "", headers = {} } of answers) {
    nock(UPSTREAM)
      .get((uri) => uri.startsWith(question.target))
      .reply(({ url, headers: sent }: Request) => {
        queries.push(new URL(url).searchParams);
        heads.push(Object.fromEntries(sent));
        return [status, body, headers];
      });
  }
  const { attempt, watcher } = attempting({ baseUrl: UPSTREAM });
  const result = await attempt(question, NO_DEADLINE).catch((error: unknown) => {
    if (error instanceof Problem) return error;
    throw error;
  });
  return { result, times: queries.length, queries, heads, watcher };
}

function problemIn({ result }: { result: Fetched | Problem }): Problem {
  if (!(result instanceof Problem)) throw new TypeError("an answer where a problem was expected");
  return result;
}

describe("an upstream that fails for a moment", () => {
  it.each([
    [[500, 503, 200], 503, "upstream-unavailable"],
    [[503, 500, 200], 502, "upstream-error"],
  ])("%j is retried once: %i %s", async (statuses, expected, code) => {
    const outcome = await asked(statuses.map((status) => ({ status, body: PAGE })));
    expect(problemIn(outcome)).toMatchObject({ status: expected, code });
    expect(outcome.times).toBe(2);
  });

  it.each([400, 404] as const)("and answers the retry with %i gives that answer", async (status) => {
    const { result, times } = await asked([{ status: 500 }, { status }, { status: 200, body: PAGE }]);
    expect([result.status, times]).toEqual([status, 2]);
  });
});

it.each<Record<string, string>>([
  { etag: "*" },
  { etag: "unquoted" },
  { etag: '"one", "two"' },
  { "last-modified": "2099" },
])("a malformed validator is dropped: %o", async (headers) => {
  const { result } = await asked([{ status: 200, body: PAGE, headers }]);
  expect(result).toMatchObject({ status: 200, validators: { etag: undefined, lastModified: undefined } });
});

describe("a body in gzip", () => {
  const [first, second] = [gzipSync(PAGE.slice(0, 20)), gzipSync(PAGE.slice(20))];
  const whole = gzipSync(PAGE);
  /** The same body, but its last four bytes contain another length. */
  const named = (length: number): Buffer => {
    const bytes = Buffer.from(whole);
    bytes.writeUInt32LE(length, bytes.length - 4);
    return bytes;
  };

  it.each<[string, Buffer, string]>([
    ["in several members is decoded as a whole", Buffer.concat([first, second]), PAGE],
    ["followed by an empty member is decoded as a whole", Buffer.concat([whole, gzipSync("")]), PAGE],
    ["of a few bytes is not accepted", whole.subarray(0, 3), "upstream-invalid-response"],
    [
      "whose last bytes contain a huge length is not accepted",
      named(0xffff_ffff),
      "upstream-invalid-response",
    ],
    ["whose last bytes contain a length of 0 is not accepted", named(0), "upstream-invalid-response"],
  ])("%s", async (_name, body, expected) => {
    const headers = { "content-encoding": "gzip" };
    const { result } = await asked([200, 200].map((status) => ({ status, body, headers })));
    expect(result instanceof Problem ? result.code : "body" in result && result.body.toString()).toBe(
      expected,
    );
  });

  it("in several members is not decoded in very small pieces", async () => {
    const body = randomBytes(30_000).toString("base64");
    const head = { statusCode: 200, headers: { "content-encoding": "gzip" } };
    const allocated = vi.spyOn(Buffer, "allocUnsafe");
    const zipped = Buffer.concat([gzipSync(body), gzipSync("")]);
    allocated.mockClear();
    const answer = await wholeAnswer(head, zipped, 0, LIMITS.maxBodyBytes);
    const pieces = allocated.mock.calls.length;
    allocated.mockRestore();
    expect(answer.body.toString()).toBe(body);
    expect(pieces).toBeLessThan(10);
  });
});

describe("a conditional request", () => {
  const cached = { etag: 'W/"7"', lastModified: "Thu, 15 Jan 2026 11:00:00 GMT" };

  it("is repeated without the condition after a 304 for another answer", async () => {
    const { result, heads } = await asked(
      [
        { status: 304, headers: { etag: '"8"' } },
        { status: 200, body: PAGE },
      ],
      { ...LISTINGS, cached },
    );
    expect(heads.map((head) => head["if-none-match"])).toEqual([cached.etag, undefined]);
    expect(result).toMatchObject({ status: 200, body: Buffer.from(PAGE) });
  });

  it("is retried without the condition after a failure", async () => {
    const { result, heads } = await asked([{ status: 500 }, { status: 200, body: PAGE }], {
      ...LISTINGS,
      cached,
    });
    expect(heads.map((head) => head["if-none-match"])).toEqual([cached.etag, undefined]);
    expect(result).toMatchObject({ status: 200 });
  });
});

describe("a body that cannot be used", () => {
  const bomb = gzipSync(Buffer.alloc(LIMITS.maxBodyBytes + 1, " "));
  const gzip = { "content-encoding": "gzip" };
  it.each<[string, string | Buffer, Record<string, string>, number | string]>([
    ["too large", Buffer.alloc(LIMITS.maxBodyBytes + 1, " "), {}, "too-large"],
    ["small, but a bomb", bomb, gzip, "too-large"],
    ["broken gzip", Buffer.from("not gzip at all"), gzip, "bad-encoding"],
    ["gzip cut short", gzipSync(PAGE).subarray(0, -9), gzip, "bad-encoding"],
    ["of an unknown coding", PAGE, { "content-encoding": "br" }, "bad-encoding"],
    ["coded twice", gzipSync(gzipSync(PAGE)), { "content-encoding": "gzip, gzip" }, "bad-encoding"],
  ])("(%s) gives 502 without a retry, and is recorded", async (_name, body, headers, recorded) => {
    const outcome = await asked([
      { status: 200, body, headers },
      { status: 200, body: PAGE },
    ]);
    expect(problemIn(outcome)).toMatchObject({ status: 502, code: "upstream-invalid-response" });
    expect(outcome.times).toBe(1);
    expect(outcome.watcher.calls).toEqual([
      expect.objectContaining({ status: recorded, note: expect.any(String) }),
    ]);
  });

  it.each([
    ["gzip", gzipSync(PAGE)],
    ["GZIP", gzipSync(PAGE)],
    ["x-gzip", gzipSync(PAGE)],
    ["identity", Buffer.from(PAGE)],
    ["", Buffer.from(PAGE)],
  ])("is not one with Content-Encoding: %s", async (coding, body) => {
    const { result } = await asked([{ status: 200, body, headers: { "content-encoding": coding } }]);
    expect(result).toMatchObject({ status: 200, body: Buffer.from(PAGE) });
  });

  it("is not one of exactly upstream.maxBody", async () => {
    const body = PAGE.padEnd(LIMITS.maxBodyBytes, " ");
    const plain = await asked([{ status: 200, body }]);
    expect(plain.result).toMatchObject({ status: 200 });
    const coded = await asked([{ status: 200, body: gzipSync(body), headers: gzip }]);
    expect(coded.result).toMatchObject({ status: 200 });
  });
});
