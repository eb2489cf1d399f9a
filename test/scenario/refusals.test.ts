import { describe, expect, it } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";

/** As long as `server.maxUrlBytes` allows by default. */
const LONGEST = `/areas?q=${"x".repeat(8_192 - "/areas?q=".length)}`;

describe("a request that cannot be served", () => {
  it.each([
    ["/", "GET", {}, 404, "unknown-path"],
    ["/listing", "GET", {}, 404, "unknown-path"],
    ["/metrics", "GET", {}, 404, "unknown-path"],
    ["/listings/../areas", "GET", {}, 404, "unknown-path"],
    ["/listings", "POST", {}, 405, "method-not-allowed"],
    ["/listings/7/photos", "GET", {}, 404, "unknown-path"],
    ["/nowhere", "POST", {}, 404, "unknown-path"],
    ["/sold", "POST", { accept: "x/y" }, 405, "method-not-allowed"],
    ["/sold", "PUT", {}, 405, "method-not-allowed"],
    ["/sold", "PATCH", {}, 405, "method-not-allowed"],
    ["/sold", "TRACE", {}, 405, "method-not-allowed"],
    ["/sold", "PROPFIND", {}, 405, "method-not-allowed"],
    ["/areas", "DELETE", {}, 405, "method-not-allowed"],
    ["/areas", "OPTIONS", {}, 405, "method-not-allowed"],
    ["/listings", "GET", { accept: "text/html" }, 406, "not-acceptable"],
    ["/listings", "GET", { accept: "application/xml, image/*" }, 406, "not-acceptable"],
    ["/listings", "GET", { accept: "application/vnd.propertyservice-v3+json" }, 406, "not-acceptable"],
    ["/listings", "GET", { accept: "application/json;q=0" }, 406, "not-acceptable"],
    ["/cache/primary_1_10x10.jpg", "GET", { accept: "application/json" }, 406, "not-acceptable"],
    ["/cache/primary_1_141x10.jpg", "GET", {}, 400, "invalid-query"],
    ["/listings?limit=501", "GET", {}, 400, "invalid-query"],
    ["/areas?q=%E4", "GET", {}, 400, "invalid-query"],
    ["/listings", "GET", { expect: "100-continue" }, 417, "expectation-failed"],
    ["/listings", "GET", { expect: "200-ok" }, 417, "expectation-failed"],
    [`${LONGEST}x`, "GET", {}, 414, "uri-too-long"],
    [`/listings?q=${"x".repeat(30_000)}`, "GET", {}, 414, "uri-too-long"],
  ] as const)(
    "%s by %s with %o gets %i %s, without an upstream call",
    async (target, method, headers, status, code) => {
      const gateway = await startGateway();
      const reply = await gateway.get(target, { method, headers });
      expect([reply.status, problemCode(reply)]).toEqual([status, code]);
      expect(cacheStatus(reply)).toEqual({ detail: code });
      expect(reply.headers).toMatchObject({
        "cache-control": "no-store",
        age: "0",
        etag: expect.any(String),
      });
      if (status === 405) expect(reply.headers.allow).toBe("GET, HEAD");
      expect(gateway.sandbox.requests()).toEqual([]);
    },
  );

  it("gets every mistake at once, with the value, what is expected and a hint", async () => {
    const gateway = await startGateway();
    const reply = await gateway.get("/listings?limit=501&objectType=vila");
    expect(reply.json()).toMatchObject({
      errors: [
        { parameter: "objectType", value: "vila", expected: expect.any(String), hint: "did you mean villa?" },
        { parameter: "limit", value: "501", expected: "a whole number from 0 to 500" },
      ],
    });
  });

  it.each([
    ["/listings?limit=501", "limit", "501", "a whole number from 0 to 500"],
    ["/listings?offset=-1", "offset", "-1", /^a whole number from 0 to/],
    ["/listings?bbox=59,18,60", "bbox", "59,18,60", /^4 decimal numbers lat_lo,lng_lo,lat_hi,lng_hi/],
    ["/listings?center=200,18", "center", "200,18", /lat from -90 to 90/],
    ["/areas?lat=200&lng=18", "lat", "200", "a decimal number from -90 to 90"],
    ["/areas?lat=59", "lat", "59", "to be given together with lng"],
    ["/sold?objectType=villa,house", "objectType", "villa,house", /^one or more of villa, lägenhet/],
    ["/listings?minRooms=2&minRooms=3", "minRooms", "2 and 3", "one value: it was given twice"],
    ["/listings?minListPrice=1.5", "minListPrice", "1.5", "a whole number"],
    ["/listings?minPublished=20260230", "minPublished", "20260230", "a calendar day as YYYYMMDD"],
    ["/listings?isNewConstruction=2", "isNewConstruction", "2", "1 or 0"],
    ["/listings?areaId=Nacka", "areaId", "Nacka", "a whole number, or several separated by commas"],
    ["/cache/primary_7_141x94.jpg", "width", "141", "a whole number from 1 to 140"],
    ["/cache/primary_7_140x95.jpg", "height", "95", "a whole number from 1 to 94"],
    ["/listings/abc", "serviceId", "abc", "a whole number of at least 0"],
    ["/listings?center=59.3,18&dim=100", "dim", "100", /2 decimal numbers/],
    ["/areas?q=a%00b", "q", "a\u0000b", /control characters/],
    ["/areas?q=%E4", "q", "%E4", /percent-encoded UTF-8/],
    ["/areas?%E4=1", "%E4", "1", /percent-encoded UTF-8/],
  ])(
    "by %s gets the reason that %s is %s, and what is expected",
    async (target, parameter, value, expected) => {
      const gateway = await startGateway();
      const reply = await gateway.get(target);
      expect(problemCode(reply)).toBe("invalid-query");
      expect(reply.json()).toMatchObject({
        errors: [{ parameter, value, expected: expect.stringMatching(expected) }],
      });
      expect(gateway.sandbox.requests()).toEqual([]);
    },
  );

  it("is not refused for harmless differences", async () => {
    const gateway = await startGateway();
    const lookAlikes = [
      "/listings?minRooms=2&minRooms=2.0",
      "/listings?limit=0",
      "/listings?limit=&offset=NaN&areaId=undefined&dim=1,2",
      "/sold?objectType=VILLA,L%C3%84GENHET",
      "/areas?lat=-0&lng=0",
      LONGEST,
    ];
    for (const path of lookAlikes) expect([path, (await gateway.get(path)).status]).toEqual([path, 200]);
  });

  it("gets the nearest path as a hint, and is counted for the resource if that is known", async () => {
    const gateway = await startGateway();
    expect((await gateway.get("/listing/")).json()).toMatchObject({ detail: "Did you mean /listings?" });
    await gateway.get("/sold", { method: "POST" });
    const series = 'gateway_requests_total{app="other",resource="sold",outcome="refused",status="405"}';
    expect(await gateway.metric(series)).toBe(1);
  });
});

/** Node's parser refuses the bytes, and does not say why. */
const UNREADABLE =
  /^The bytes are not a complete request of HTTP\/1\.1\. A space or another .* must be percent-encoded\.$/;

describe("a malformed request", () => {
  it.each([
    [
      "a control character in the target",
      "GET /areas?q=\u0001 HTTP/1.1\r\nHost: x\r\n\r\n",
      "400 malformed-request",
      UNREADABLE,
    ],
    [
      "a header without a name",
      "GET /areas HTTP/1.1\r\nHost: x\r\n: v\r\n\r\n",
      "400 malformed-request",
      UNREADABLE,
    ],
    [
      "a header that is folded",
      "GET /areas HTTP/1.1\r\nHost: x\r\nA: 1\r\n 2\r\n\r\n",
      "400 malformed-request",
      UNREADABLE,
    ],
    [
      "a blank in the target",
      "GET /areas?q=a b HTTP/1.1\r\nHost: x\r\n\r\n",
      "400 malformed-request",
      UNREADABLE,
    ],
    ["an unknown method", "FETCH /areas HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed-request", UNREADABLE],
    ["no HTTP", "hello\r\n\r\n", "400 malformed-request", UNREADABLE],
    ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 malformed-request", UNREADABLE],
    [
      "no Host",
      "GET /areas HTTP/1.1\r\nConnection: close\r\n\r\n",
      "400 malformed-request",
      /Host header is missing/,
    ],
    [
      "two lengths",
      "GET /areas HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "400 malformed-request",
      UNREADABLE,
    ],
    [
      "a length that is none",
      "GET /areas HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n",
      "400 malformed-request",
      UNREADABLE,
    ],
    [
      "a tunnel",
      "CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
      "405 method-not-allowed",
      /does not support CONNECT/,
    ],
    [
      "an expectation",
      "GET /areas HTTP/1.1\r\nHost: x\r\nExpect: x\r\nConnection: close\r\n\r\n",
      "417 expectation-failed",
      /an Expect header/,
    ],
    [
      "headers beyond the parser's own limit",
      `GET /areas HTTP/1.1\r\nHost: x\r\nA: ${"a".repeat(60_000)}\r\n\r\n`,
      "431 headers-too-large",
      /All headers together may be at most 16384 bytes long/,
    ],
    [
      "too many headers",
      `GET /areas HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${"A: b\r\n".repeat(99)}\r\n`,
      "431 headers-too-large",
      /A request may have at most 100 headers/,
    ],
    [
      "a URL beyond the parser's own limit",
      `GET /areas?q=${"a".repeat(60_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
      "431 headers-too-large",
      /URLs 8192\.$/,
    ],
  ])("%s is refused with a problem that says what is wrong", async (_name, bytes, expected, detail) => {
    const gateway = await startGateway();
    const raw = await exchangeRaw(gateway.port, Buffer.from(bytes, "latin1"));
    const [head = "", body = ""] = raw.split("\r\n\r\n");
    const [status, code] = expected.split(" ");
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(head).toMatch(/^content-type: application\/problem\+json$/im);
    expect(head).toMatch(/^x-request-id: \S+$/im);
    expect(JSON.parse(body)).toMatchObject({
      type: `urn:property-gateway:problem:${code}`,
      status: Number(status),
      detail: expect.stringMatching(detail),
    });
    expect(gateway.sandbox.requests()).toEqual([]);
  });
});
