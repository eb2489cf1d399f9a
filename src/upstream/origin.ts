/**
 * One of the two addresses of the upstream, the JSON interface or the thumbnails (interface, section 1): its connections,
 * its budget and its signature.
 */
import type http from "node:http";
import type https from "node:https";

import type { Throttled } from "../ratelimit/throttled.ts";
import { type AgentOptions, createAgent } from "./agent.ts";
import { createFetch, type Fetch, type FetchLimits } from "./fetch.ts";
import type { Sign } from "./sign.ts";

export interface Origin {
  /** The address without a trailing slash. */
  readonly baseUrl: string;
  /** The only connection pool for this address. */
  readonly agent: http.Agent | https.Agent;
  readonly fetch: Fetch;
  /** Runs a job when the budget permits it. */
  readonly throttled: Throttled;
  readonly sign: Sign;
}

export interface OriginOptions extends FetchLimits, AgentOptions {
  readonly throttled: Throttled;
  readonly sign: Sign;
}

export function createOrigin(options: OriginOptions): Origin {
  const { baseUrl, throttled, sign } = options;
  const agent = createAgent(options);
  return { baseUrl, agent, throttled, sign, fetch: createFetch(agent, options) };
}
