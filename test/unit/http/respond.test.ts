import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";

import { describe, expect, it } from "vitest";

import type { Arrival } from "../../../src/http/arrive.ts";
import { createRespond } from "../../../src/http/respond.ts";
import { Problem } from "../../../src/errors.ts";

const ARRIVAL: Arrival = {
  record: {
    id: "request-1",
    app: "web",
    method: "GET",
    resource: "listings",
    query: undefined,
    status: 0,
    outcome: "refused",
    tier: undefined,
    problem: undefined,
    durationMs: 0,
    bytes: 0,
    receivedAt: 1_768_478_400_000,
  },
  gone: () => new AbortController().signal,
  hangUp: () => undefined,
  preferenceApplied: undefined,
  startedAt: 0,
  corsHeaders: undefined,
  trace: undefined,
};

const respond = createRespond({
  now: () => ARRIVAL.record.receivedAt,
  encode: async (_key, { bodies }) => ({ body: bodies.identity ?? Buffer.alloc(0), coding: "identity" }),
  isCompressible: () => false,
  share: () => [],
  retryAfterSeconds: () => 30,
});

/** A response that shows its headers, also those that are only written and not set. */
function newResponse(): ServerResponse {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const writeHead = response.writeHead.bind(response);
  return Object.assign(response, {
    writeHead(status: number, head: readonly string[] = []) {
      for (let at = 0; at < head.length; at += 2) response.setHeader(head[at] ?? "", head[at + 1] ?? "");
      return writeHead(status);
    },
  });
}

describe("Retry-After", () => {
  it.each([
    ["upstream-unreachable", "30"],
    ["deadline-exceeded", "30"],
    ["upstream-rejected", undefined],
  ] as const)("is the time until the circuit is half-open: %s", (code, retryAfter) => {
    const response = newResponse();
    respond.problem(ARRIVAL, new Problem(code), response);
    expect(response.getHeader("retry-after")).toBe(retryAfter);
  });
});
