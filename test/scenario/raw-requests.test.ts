/** Requests byte for byte: raw-requests.txt. Malformed ones are refused or closed, cause no upstream call, and do not affect others. */
import { expect, it } from "vitest";

import { exchangeRaw } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { createLeapingClock } from "../support/stepping-clock.ts";
import { sectionsOf, unescaped } from "../support/table.ts";

/** Nothing is fresh a moment later, so that each request that is served reaches the upstream. */
const SETTINGS = `
upstream: { passThrough: ["/areas/*"] }
cache: { ttl: 1ms, staleWhileRevalidate: 0s }`;

/** @returns the bytes as Latin-1 */
function bytesOf(written: string): string {
  const inFull = written
    .replace("{get}", "GET /areas?q=Nacka HTTP/1.1⏎")
    .replace("{last}", "Host: gateway.example⏎Connection: close⏎⏎")
    .replace("{another}", "GET /sold?limit=1 HTTP/1.1⏎Host: x⏎⏎");
  return unescaped(inFull).replaceAll("⏎", "\r\n");
}

/** @returns `400 malformed-request: detail` for each answer, after checking that every problem is a proper one */
function answersIn(raw: string): string {
  const answers = raw.split(/(?=HTTP\/1\.1 \d{3} )/).filter((answer) => answer !== "");
  expect(raw).not.toMatch(/^(x-evil|set-cookie):/im);
  expect(raw).not.toMatch(/c00kie|password|127\.0\.0\.1|node:|src\//);
  return answers
    .map((answer) => {
      const [head = "", body = ""] = answer.split("\r\n\r\n");
      const status = head.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length);
      expect(head).toMatch(/^x-request-id: \S+$/im);
      if (Number(status) < 400) return status;
      expect(head).toMatch(/^content-type: application\/problem\+json$/im);
      const problem: Record<string, unknown> = JSON.parse(body);
      expect(problem).toMatchObject({ status: Number(status), title: expect.any(String) });
      return `${status} ${String(problem["type"]).replace("urn:property-gateway:problem:", "")}: ${String(problem["detail"])}`;
    })
    .join(", ");
}

async function outcomeOf(gateway: TestGateway, bytes: string, wanted: string): Promise<string> {
  gateway.sandbox.clearRequests();
  // A connection that ends is not waited for, with or without a request.
  const end = !wanted.includes(" | ");
  const answers = answersIn(await exchangeRaw(gateway.port, Buffer.from(bytes, "latin1"), { end }));
  const shown = wanted.includes(": ") ? answers : answers.replaceAll(/: [^|]*?(?=, \d{3}|$)/g, "");
  const paths = gateway.sandbox.requests().map(({ path }) => path);
  return [shown, paths.join(" ")].filter((part) => part !== "").join(" | ");
}

it.each(sectionsOf(new URL("raw-requests.txt", import.meta.url)))(
  "requests, byte for byte $title",
  async ({ rows }) => {
    const clock = createLeapingClock();
    const gateway = await startGateway({ clock, settings: SETTINGS });
    const found: [given: string, outcome: string][] = [];
    for (const [given, wanted] of rows) {
      clock.leap(10);
      const [, bytes = ""] = given.split(/ \| (.*)/);
      found.push([given, await outcomeOf(gateway, bytesOf(bytes), wanted)]);
    }
    expect(found).toEqual(rows);
    expect((await gateway.get("/areas?q=Lund")).status).toBe(200);
    for (const line of gateway.log) expect(JSON.parse(line)).toMatchObject({ level: expect.any(String) });
  },
);
