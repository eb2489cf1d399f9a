import { describe, expect, it } from "vitest";

import { UPSTREAM_FAULTS, type Validators } from "../../../src/types.ts";
import { faultOf, type RawAnswer } from "../../../src/upstream/fetch.ts";
import {
  judgeAnswer,
  judgeFault,
  retryAfterMs,
  slowDownAfter,
  slowDownIn,
  type Asked,
  type Verdict,
} from "../../../src/upstream/verdict.ts";

const NOW = Date.UTC(2026, 0, 15, 12);
const SEARCH: Asked = {
  resource: "listings",
  signature: [],
  confidential: ["upstream.test", "acme", "k3y"],
  maxCoolOffMs: 3_600_000,
  now: NOW,
};
const IMAGE: Asked = { ...SEARCH, resource: "images" };

function judged(answer: Partial<RawAnswer>, asked = SEARCH): Verdict {
  return judgeAnswer({ status: 200, headers: {}, body: Buffer.alloc(0), ...answer }, asked);
}

/** A verdict in one line: its kind, or the caller's problem and whether to store it or to retry. */
function inBrief(verdict: Verdict): string {
  if (!("problem" in verdict)) return verdict.kind;
  if (verdict.kind === "negative") return `${verdict.status} ${verdict.problem.code}, as the answer`;
  const { status, code, details } = verdict.problem;
  const wait = details.retryAfterSeconds === undefined ? "" : ` after ${details.retryAfterSeconds} s`;
  return `${status} ${code}${wait}${verdict.mayRetry ? ", may retry" : ""}`;
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

const PAGE = json({ totalCount: 9, count: 2, listings: [{}, {}], limit: 2, offset: 0, searchParams: {} });

describe("a status of the upstream", () => {
  it.each([
    [400, "400 upstream-rejected, as the answer"],
    [401, "502 upstream-authentication-failed"],
    [403, "502 upstream-authentication-failed"],
    [404, "404 not-found, as the answer"],
    [405, "502 upstream-invalid-response"],
    [406, "502 upstream-invalid-response"],
    [429, "503 upstream-unavailable after 5 s"],
    [500, "502 upstream-error after 5 s, may retry"],
    [503, "503 upstream-unavailable after 5 s, may retry"],
    // Statuses the interface does not document.
    [201, "502 upstream-invalid-response"],
    [204, "502 upstream-invalid-response"],
    [206, "502 upstream-invalid-response"],
    [301, "502 upstream-invalid-response"],
    [304, "502 upstream-invalid-response"],
    [418, "502 upstream-invalid-response"],
    [502, "502 upstream-invalid-response"],
    [504, "502 upstream-invalid-response"],
    [999, "502 upstream-invalid-response"],
  ])("%i becomes: %s", (status, expected) => {
    expect(inBrief(judged({ status, body: PAGE }))).toBe(expected);
  });

  it.each([
    ["0", 1],
    ["30", 30],
    ["3601", 3600],
    ["Thu, 15 Jan 2026 12:00:45 GMT", 45],
  ])("503 or 429 with Retry-After: %s becomes Retry-After: %i, without a retry", (value, seconds) => {
    const expected = `503 upstream-unavailable after ${seconds} s`;
    expect(inBrief(judged({ status: 503, headers: { "retry-after": value } }))).toBe(expected);
    expect(inBrief(judged({ status: 429, headers: { "retry-after": value } }))).toBe(expected);
  });

  it("503 with a malformed Retry-After is treated as one without", () => {
    const verdict = judged({ status: 503, headers: { "retry-after": "soon" } });
    expect(inBrief(verdict)).toBe("503 upstream-unavailable after 5 s, may retry");
  });
});

describe("a 304", () => {
  const [cached, refused] = ["not-modified", "502 upstream-invalid-response"];
  const retried = `${refused}, may retry`;

  it.each<[string, Validators | undefined, string | undefined, string]>([
    ["to what was not cached", undefined, undefined, refused],
    ["to what was not cached, with a validator", undefined, '"a"', refused],
    ["that names no validator", { etag: '"a"', lastModified: undefined }, undefined, cached],
    ["that names the one cached", { etag: '"a"', lastModified: undefined }, '"a"', cached],
    ["that names it as a weak one", { etag: '"a"', lastModified: undefined }, 'W/"a"', cached],
    ["that names a weak one as a strong one", { etag: 'W/"a"', lastModified: undefined }, '"a"', cached],
    ["that names another one", { etag: '"a"', lastModified: undefined }, '"b"', retried],
    ["to a date", { etag: undefined, lastModified: "Thu, 15 Jan 2026 11:00:00 GMT" }, '"b"', cached],
  ])("%s (%o; %s) is: %s", (_name, validators, etag, expected) => {
    const headers = etag === undefined ? {} : { etag };
    expect(inBrief(judged({ status: 304, headers }, { ...SEARCH, cached: validators }))).toBe(expected);
  });
});

describe("a body with status 200", () => {
  it("is passed on byte for byte", () => {
    const body = Buffer.from(' {"count":1, "listings":[{"a":"http:\\/\\/x","b":"\\u00e4"}]}\n');
    expect(judged({ body })).toMatchObject({ kind: "answer", body });
  });

  it.each([
    ["application/json", "application/json"],
    ["application/json; charset=utf-8", "application/json; charset=utf-8"],
    ["application/vnd.propertyservice-v2+json", "application/vnd.propertyservice-v2+json"],
    ["text/html", "application/json; charset=utf-8"],
    ["application/jsonp", "application/json; charset=utf-8"],
    ["application/json\nx", "application/json; charset=utf-8"],
    [undefined, "application/json; charset=utf-8"],
  ])("with Content-Type %s is passed on as %s", (given, sent) => {
    expect(judged({ body: PAGE, headers: { "content-type": given } })).toMatchObject({ contentType: sent });
  });
});

describe("a thumbnail with status 200", () => {
  const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 1, 2, 3, 0xff, 0xd9]);

  it("is an answer if it is a complete JPEG, with any Content-Type", () => {
    const verdict = judged({ body: JPEG, headers: { "content-type": "application/octet-stream" } }, IMAGE);
    expect(verdict).toMatchObject({ kind: "answer", body: JPEG, contentType: "image/jpeg" });
  });
});

describe("Retry-After", () => {
  it.each([
    ["0", 0],
    [" 120 ", 120_000],
    ["9".repeat(400), Number.POSITIVE_INFINITY],
    ["Thu, 15 Jan 2026 12:00:30 GMT", 30_000],
    ["Thu, 15 Jan 2026 11:59:00 GMT", 0],
    ["soon", undefined],
    ["-5", undefined],
    ["1.5", undefined],
    ["5, 10", undefined],
    ["", undefined],
    [undefined, undefined],
  ])("%s is %s ms", (value, expected) => {
    expect(retryAfterMs(value, NOW)).toBe(expected);
  });
});

describe("the pause that an answer asks for", () => {
  it.each<[number, string | undefined, ReturnType<typeof slowDownIn>]>([
    [429, undefined, { cause: "too-many-requests", forMs: undefined }],
    [429, "7", { cause: "too-many-requests", forMs: 7_000 }],
    [503, "7", { cause: "unavailable", forMs: 7_000 }],
    [503, "0", { cause: "unavailable", forMs: 0 }],
    [503, "soon", undefined],
    [500, "7", undefined],
    [404, "7", undefined],
  ])("%i with Retry-After %s: %o", (status, retryAfter, expected) => {
    const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter };
    expect(slowDownIn({ status, headers }, NOW)).toEqual(expected);
  });

  it.each(
    UPSTREAM_FAULTS.map(
      (fault) => [fault, ["unreachable", "connect-timeout", "header-timeout"].includes(fault)] as const,
    ),
  )("a call that ended with %s counts as unreachable: %s", (fault, isUnreachable) => {
    const expected = isUnreachable ? { cause: "unreachable", forMs: undefined } : undefined;
    expect(slowDownAfter(fault)).toEqual(expected);
  });
});

it.each(["EMFILE", "ENFILE"])("%s is a refusal of the gateway, no failure of the API", (code) => {
  const fault = faultOf(Object.assign(new Error(code), { code }), false);
  expect(judgeFault(fault)).toMatchObject({ problem: { code: "too-many-connections", status: 503 } });
  expect(slowDownAfter(fault.kind)).toBeUndefined();
});
