import type { RequestRecord, UpstreamCallRecord } from "../../src/telemetry/events.ts";

/** A cache hit of 20 ms. */
export const HIT: RequestRecord = {
  id: "request-1",
  app: "web",
  method: "GET",
  resource: "listings",
  query: "listings?offset=0",
  status: 200,
  outcome: "hit",
  tier: "memory",
  problem: undefined,
  receivedAt: 0,
  durationMs: 20,
  bytes: 1_000,
};

/** A call that was answered after 100 ms. */
export const CALL: UpstreamCallRecord = {
  resource: "sold",
  query: "sold?offset=0",
  cause: "miss",
  status: 200,
  durationMs: 100,
  bytes: 10,
};
