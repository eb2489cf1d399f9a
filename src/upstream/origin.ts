/**
 * Where a part of the upstream lives: the JSON interface, or the thumbnails (interface, section 1).
 */
import http from "node:http";
import https from "node:https";

import type { Throttled } from "../types.ts";
import { verifiedTls } from "../tls.ts";
import { createFetch, type Fetch, type FetchLimits } from "./fetch.ts";
import type { Sign } from "./sign.ts";

/** An address, how fast it may be asked, and how a request to it is made genuine. */
export interface Origin {
  /** Base address without a trailing slash. */
  readonly baseUrl: string;
  /** The one pool of kept-alive connections to it. */
  readonly agent: http.Agent | https.Agent;
  readonly fetch: Fetch;
  readonly throttled: Throttled;
  readonly sign: Sign;
}

export interface OriginOptions extends FetchLimits {
  readonly baseUrl: string;
  /** Most connections at once. */
  readonly connections: number;
  /** The certificate authorities to trust, as PEM; `null`: Node's own. */
  readonly ca: string | null;
  readonly throttled: Throttled;
  readonly sign: Sign;
}

export function createOrigin(options: OriginOptions): Origin {
  const { baseUrl, throttled, sign } = options;
  const pool = { keepAlive: true, maxSockets: options.connections, scheduling: "lifo" } as const;
  const agent = baseUrl.startsWith("https:")
    ? new https.Agent({ ...pool, ...verifiedTls(options.ca) })
    : new http.Agent(pool);
  return { baseUrl, agent, throttled, sign, fetch: createFetch(agent, options) };
}
