/**
 * One of the two addresses of the upstream, the JSON interface or the thumbnails (interface, section 1): its connections,
 * its budget, its signature, and the headers that every request to it carries.
 */
import type http from "node:http";
import type https from "node:https";

import { mediaTypeOf, type Format } from "../interface/media-types.ts";
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

/** How the company identifies itself (terms of use, interface section 1). */
export interface Identity {
  readonly service: string;
  readonly userAgent: string;
  readonly referrer: string;
}

/**
 * The request headers of every upstream call. `Referrer` is the interface's spelling (section 1), `Referer` is the
 * standard's (RFC 9110, section 10.1.3).
 */
export function outgoingHeaders(format: Format, identity: Identity): Record<string, string> {
  return {
    accept: mediaTypeOf(format, identity.service),
    "user-agent": identity.userAgent,
    referer: identity.referrer,
    referrer: identity.referrer,
  };
}
