import { IncomingMessage, type IncomingHttpHeaders } from "node:http";
import { Socket } from "node:net";

import { describe, expect, it } from "vitest";

import { createAdmit } from "../../../src/http/admit.ts";
import type { Arrival } from "../../../src/http/arrive.ts";
import { Problem } from "../../../src/errors.ts";
import { type GatewayRequest, NO_DIRECTIVES } from "../../../src/types.ts";
import { createRouter } from "../../../src/query/route.ts";

const RECEIVED_AT = 1_768_478_400_000;
const DATE = "Thu, 15 Jan 2026 11:00:00 GMT";

interface Asked {
  readonly method?: string;
  readonly httpVersion?: string;
  readonly headers?: IncomingHttpHeaders;
}

function arrivalOf(): Arrival {
  return {
    id: "request-1",
    app: "web",
    startedAt: 0,
    receivedAt: RECEIVED_AT,
    gone: () => new AbortController().signal,
    hangUp: () => undefined,
    resource: "none",
    preferenceApplied: undefined,
    query: undefined,
    outcome: "refused",
    tier: undefined,
    problem: undefined,
    trace: undefined,
    ageMs: undefined,
    corsHeaders: undefined,
    bytes: 0,
  };
}

const admit = createAdmit({
  route: createRouter({
    recordPath: "/{resource}/{serviceId}",
    passThrough: ["/listings/{serviceId}/similar"],
  }),
  known: () => undefined,
  service: "propertyservice",
  head: { maxUrlBytes: 200, maxHeaderBytes: 1_000, maxHeaders: 10 },
  maxWaitMs: () => 10_000,
  rightsOf: (app) => ({ priority: "background", mayForceRefresh: app === "web" }),
});

function admitted(
  url: string,
  { method = "GET", httpVersion = "1.1", headers = {} }: Asked = {},
  arrival = arrivalOf(),
): GatewayRequest {
  const message = Object.assign(new IncomingMessage(new Socket()), {
    url,
    method,
    httpVersion,
    headers: { host: "gateway.example", ...headers },
  });
  return admit(arrival, message);
}

/** The problem that a request is refused with. */
function refusal(url: string, asked: Asked = {}): Problem {
  try {
    admitted(url, asked);
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error("the request was admitted");
}

describe("a request that is admitted", () => {
  it("has all that later stages ask of it, and a deadline from its arrival", () => {
    const request = admitted("/listings?areaId=76&q=%C3%A4", {
      headers: {
        accept: "application/json",
        "accept-encoding": "br",
        "if-none-match": '"tag"',
        "if-modified-since": DATE,
      },
    });
    expect(request).toMatchObject({
      id: "request-1",
      method: "GET",
      app: "web",
      route: { kind: "search", resource: "listings" },
      search: "areaId=76&q=%C3%A4",
      format: "json",
      coding: "br",
      ifNoneMatch: '"tag"',
      ifModifiedSince: DATE,
      directives: NO_DIRECTIVES,
      priority: "background",
      mayForceRefresh: true,
      receivedAt: RECEIVED_AT,
      deadlineAt: RECEIVED_AT + 10_000,
    });
  });

  it.each([
    ["/listings", "search"],
    ["/sold/7", "record"],
    ["/areas?q=x", "search"],
    ["/cache/primary_7_140x94.jpg", "image"],
    ["/listings/7/similar", "streamed"],
  ])("may ask for %s, by GET and by HEAD", (url, kind) => {
    expect(admitted(url).route.kind).toBe(kind);
    expect(admitted(url, { method: "HEAD" })).toMatchObject({ method: "HEAD", route: { kind } });
  });

  it("may be one of HTTP/1.0, which needs no Host", () => {
    const headers = { host: undefined };
    expect(admitted("/areas", { httpVersion: "1.0", headers }).route.kind).toBe("search");
  });

  it.each([
    ["no-store", true],
    ["No-Store", true],
    ["max-age=0, no-store", true],
    ["no-cache,no-store , max-age=0", true],
    ["no-cache", false],
    ["max-age=0", false],
    ["only-if-cached", false],
    ["no-storeroom", false],
    ["", false],
    [undefined, false],
  ])("is not to be kept where it says so: Cache-Control %s is %s", (cacheControl, noStore) => {
    expect(admitted("/areas", { headers: { "cache-control": cacheControl } }).directives.noStore).toBe(
      noStore,
    );
  });

  it("may be as long as the limit, and no byte longer", () => {
    const longest = `/areas?q=${"x".repeat(191)}`;
    expect(admitted(longest).search).toHaveLength(193);
    expect(refusal(`${longest}x`)).toMatchObject({ status: 414, code: "uri-too-long" });
  });
});

describe("a request whose caller has less time", () => {
  it.each([
    ["by the deadline header", { "x-request-deadline-ms": "1500" }, 1_500, undefined],
    ["by its preference, and is told so", { prefer: "wait=2" }, 2_000, "wait=2"],
    ["by the shorter of both", { "x-request-deadline-ms": "2500", prefer: "wait=3" }, 2_500, undefined],
    ["but never more than the settings allow", { "x-request-deadline-ms": "60000" }, 10_000, undefined],
  ])("has an earlier deadline: %s", (_name, headers, waitMs, preferenceApplied) => {
    const arrival = arrivalOf();
    expect(admitted("/listings", { headers }, arrival).deadlineAt).toBe(RECEIVED_AT + waitMs);
    expect(arrival.preferenceApplied).toBe(preferenceApplied);
  });
});

describe("a request that is refused", () => {
  it.each([
    ["/", undefined],
    ["/listing", "Did you mean /listings?"],
    ["/aras", "Did you mean /areas?"],
    ["/listings/7/photos", undefined],
    ["/metrics", undefined],
  ])("because nothing is at %s", (url, detail) => {
    const problem = refusal(url);
    expect([problem.status, problem.code]).toEqual([404, "unknown-path"]);
    if (detail !== undefined) expect(problem.details.detail).toBe(detail);
  });

  it.each(["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])(
    "because it is a %s, and is told what would do",
    (method) => {
      const problem = refusal("/listings", { method });
      expect([problem.status, problem.code]).toEqual([405, "method-not-allowed"]);
      expect(problem.details.headers).toEqual({ Allow: "GET, HEAD" });
    },
  );

  it.each<[string, string, Asked, number]>([
    ["its Accept cannot be met", "/listings", { headers: { accept: "text/html" } }, 406],
    [
      "its Accept takes no picture",
      "/cache/primary_7_1x1.jpg",
      { headers: { accept: "application/json" } },
      406,
    ],
    ["it expects something", "/listings", { headers: { expect: "100-continue" } }, 417],
    ["it names no Host", "/listings", { headers: { host: undefined } }, 400],
    ["its deadline is no number", "/listings", { headers: { "x-request-deadline-ms": "soon" } }, 400],
    ["its path is unknown, whatever its method", "/nowhere", { method: "POST" }, 404],
    [
      "its method is not allowed, whatever it accepts",
      "/sold",
      { method: "POST", headers: { accept: "x/y" } },
      405,
    ],
  ])("because %s", (_name, url, asked, status) => {
    expect(refusal(url, asked).status).toBe(status);
  });

  it("is counted for the resource it asked for, where that is known", () => {
    const arrival = arrivalOf();
    const headers = { host: "gateway.example" };
    const message = Object.assign(new IncomingMessage(new Socket()), {
      url: "/sold",
      method: "POST",
      httpVersion: "1.1",
      headers,
    });
    expect(() => admit(arrival, message)).toThrow(Problem);
    expect(arrival.resource).toBe("sold");
  });
});
