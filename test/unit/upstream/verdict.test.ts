import { describe, expect, it } from "vitest";

import { PROBLEM_CODES } from "../../../src/errors.ts";
import type { UpstreamFaultKind, Validators } from "../../../src/types.ts";
import { UpstreamFault, type RawAnswer } from "../../../src/upstream/fetch.ts";
import { judgeAnswer, judgeFault, type Asked, type Verdict } from "../../../src/upstream/verdict.ts";

const NOW = Date.UTC(2026, 0, 15, 12);
const SEARCH: Asked = {
  resource: "listings",
  confidential: { hosts: ["upstream.test"], callerId: "acme", secrets: ["k3y"] },
  maxCoolOffMs: 3_600_000,
  now: NOW,
};
const RECORD: Asked = { ...SEARCH, serviceId: "1" };
const IMAGE: Asked = { ...SEARCH, resource: "images" };

function judged(answer: Partial<RawAnswer>, asked = SEARCH): Verdict {
  return judgeAnswer({ status: 200, headers: {}, body: Buffer.alloc(0), ...answer }, asked);
}

/** A verdict in one line: its kind, or what the caller is told and whether to keep that or to retry. */
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
  ])("%i is judged as: %s", (status, expected) => {
    expect(inBrief(judged({ status, body: PAGE }))).toBe(expected);
  });

  it.each([
    ["0", 1],
    ["1", 1],
    ["30", 30],
    ["3600", 3600],
    ["3601", 3600],
    ["9".repeat(400), 3600],
    ["Thu, 15 Jan 2026 12:00:45 GMT", 45],
    ["Thu, 15 Jan 2026 11:00:00 GMT", 1],
    ["Sat, 15 Jan 2000 12:00:00 GMT", 1],
    ["Fri, 15 Jan 2100 12:00:00 GMT", 3600],
  ])("503 that names a wait (%s) is not asked again; the caller is told %i seconds", (value, seconds) => {
    const expected = `503 upstream-unavailable after ${seconds} s`;
    expect(inBrief(judged({ status: 503, headers: { "retry-after": value } }))).toBe(expected);
    expect(inBrief(judged({ status: 429, headers: { "retry-after": value } }))).toBe(expected);
  });

  it("503 that names nonsense as a wait is one that names none", () => {
    const verdict = judged({ status: 503, headers: { "retry-after": "soon" } });
    expect(inBrief(verdict)).toBe("503 upstream-unavailable after 5 s, may retry");
  });

  it.each([401, 403, 405, 406, 429, 500, 503])("%i keeps the upstream's words to itself", (status) => {
    const verdict = judged({ status, body: json({ message: "disk full on db7" }) });
    expect(JSON.stringify(verdict)).not.toContain("disk full");
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
  it.each<[string, Asked, unknown]>([
    ["a page of records", SEARCH, { totalCount: 9, count: 2, listings: [{}, {}], limit: 2, offset: 0 }],
    ["a page with the key spelled offSet", SEARCH, { totalCount: 1, count: 1, listings: [{}], offSet: 0 }],
    ["an empty page", SEARCH, { totalCount: 0, count: 0, listings: [] }],
    ["a page with keys that are new", SEARCH, { count: 1, listings: [{ new: 1 }], also: "new" }],
    ["a page without a count", SEARCH, { listings: [{}] }],
    ["areas", { ...SEARCH, resource: "areas" }, { count: 1, areas: [{}] }],
    ["one record", RECORD, { listings: [{ serviceId: 1 }] }],
    ["one sold record", { ...RECORD, resource: "sold" }, { sold: [{ serviceId: 1 }] }],
  ])("is an answer: %s", (_name, asked, body) => {
    expect(inBrief(judged({ body: json(body) }, asked))).toBe("answer");
  });

  it.each<[string, Asked, Buffer]>([
    ["nothing", SEARCH, Buffer.alloc(0)],
    ["a page of HTML", SEARCH, Buffer.from("<html></html>")],
    ["JSON cut short", SEARCH, PAGE.subarray(0, -1)],
    ["JSON and more", SEARCH, Buffer.concat([PAGE, Buffer.from("Warning: mysql_connect()")])],
    ["null", SEARCH, json(null)],
    ["a text", SEARCH, json("listings")],
    ["a list", SEARCH, json([{}])],
    ["an empty object", SEARCH, json({})],
    ["an error in place of the records", SEARCH, json({ error: "FAILURE_QUOTA_EXCEEDED" })],
    ["another resource's records", SEARCH, json({ count: 1, sold: [{}] })],
    ["records that are no list", SEARCH, json({ count: 1, listings: { 0: {} } })],
    ["fewer records than counted", SEARCH, json({ count: 3, listings: [{}, {}] })],
    ["more records than counted", SEARCH, json({ count: 1, listings: [{}, {}] })],
    ["no record where one was asked for", RECORD, json({ listings: [] })],
    ["two records where one was asked for", RECORD, json({ listings: [{}, {}] })],
    ["another record than the one asked for", RECORD, json({ listings: [{ serviceId: 2 }] })],
  ])("is unusable, and not asked for again: %s", (_name, asked, body) => {
    expect(inBrief(judged({ body }, asked))).toBe("502 upstream-invalid-response");
  });

  it("is passed on byte for byte, blanks and escapes and all", () => {
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
  ])("that came as %s is passed on as %s", (given, sent) => {
    expect(judged({ body: PAGE, headers: { "content-type": given } })).toMatchObject({ contentType: sent });
  });
});

describe("a thumbnail with status 200", () => {
  const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 1, 2, 3, 0xff, 0xd9]);

  it("is an answer where it is a whole JPEG, whatever it is called", () => {
    const verdict = judged({ body: JPEG, headers: { "content-type": "application/octet-stream" } }, IMAGE);
    expect(verdict).toMatchObject({ kind: "answer", body: JPEG, contentType: "image/jpeg" });
  });

  it.each([
    ["nothing", Buffer.alloc(0)],
    ["three bytes", Buffer.from([0xff, 0xd8, 0xd9])],
    ["a picture cut short", JPEG.subarray(0, -1)],
    ["a picture without its beginning", JPEG.subarray(1)],
    ["another kind of picture", Buffer.from("\u0089PNG\r\n\u001a\n____", "latin1")],
    ["a page", Buffer.from("<html></html>")],
  ])("is unusable: %s", (_name, body) => {
    expect(inBrief(judged({ body, headers: { "content-type": "image/jpeg" } }, IMAGE))).toBe(
      "502 upstream-invalid-response",
    );
  });
});

describe("an exchange without an answer", () => {
  it.each<[UpstreamFaultKind, string]>([
    ["connect-timeout", "504 upstream-timeout"],
    ["header-timeout", "504 upstream-timeout"],
    ["body-timeout", "504 upstream-timeout"],
    ["total-timeout", "504 upstream-timeout"],
    ["unreachable", "502 upstream-unreachable"],
    ["reset", "502 upstream-unreachable"],
    ["stale-connection", "502 upstream-unreachable, may retry"],
    ["malformed", "502 upstream-invalid-response"],
    ["cut-body", "502 upstream-invalid-response"],
    ["too-large", "502 upstream-invalid-response"],
    ["bad-encoding", "502 upstream-invalid-response"],
  ])("because of %s is told as %s", (kind, expected) => {
    expect(inBrief(judgeFault(new UpstreamFault(kind, "ECODE")))).toBe(expected);
  });

  it("is told with a code that has a page", () => {
    expect(PROBLEM_CODES).toContain(judgeFault(new UpstreamFault("reset", "ECONNRESET")).problem.code);
  });
});
