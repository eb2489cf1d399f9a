/**
 * One of the two addresses of the upstream, the JSON interface or the thumbnails (interface, section 1): its connections,
 * its budget, its signature, and the headers that every request to it carries.
 */
import http from "node:http";
import https from "node:https";

import { mediaTypeOf, type Format } from "../interface/media-types.ts";
import { verifiedTls } from "../tls.ts";
import type { Throttled } from "../types.ts";
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

export interface OriginOptions extends FetchLimits {
  readonly baseUrl: string;
  /** The most connections at the same time. */
  readonly connections: number;
  /** The certificate authorities to trust, as PEM. `null` means Node's own. */
  readonly ca: string | null;
  /** The HTTP proxies by protocol of the address, and the hosts that are reached without a proxy. */
  readonly proxy: ProxySettings;
  readonly throttled: Throttled;
  readonly sign: Sign;
}

interface ProxySettings {
  readonly http: string | null;
  readonly https: string | null;
  /** Names, suffixes and addresses, separated by commas. */
  readonly except: string | null;
}

const THIS_MACHINE = "localhost,127.0.0.1,[::1],::1";

/** @returns the proxy settings in the form of environment variables, as Node's agents expect them */
function agentProxy({ http, https, except }: ProxySettings): { readonly proxyEnv?: Record<string, string> } {
  if (http === null && https === null) return {};
  return {
    proxyEnv: {
      ...(http !== null && { HTTP_PROXY: http }),
      ...(https !== null && { HTTPS_PROXY: https }),
      NO_PROXY: except === null ? THIS_MACHINE : `${except},${THIS_MACHINE}`,
    },
  };
}

export function createOrigin(options: OriginOptions): Origin {
  const { baseUrl, throttled, sign } = options;
  const pool = {
    keepAlive: true,
    maxSockets: options.connections,
    scheduling: "lifo",
    ...agentProxy(options.proxy),
  } as const;
  const agent = baseUrl.startsWith("https:")
    ? new https.Agent({ ...pool, ...verifiedTls(options.ca) })
    : new http.Agent(pool);
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
