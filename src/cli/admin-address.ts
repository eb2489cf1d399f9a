/** Where the admin port of a gateway with certain settings is, for the commands that ask it. */
import type { RequestOptions } from "node:https";

import type { Config } from "../config/config.ts";

export interface AdminAddress {
  /** Without a slash at the end. */
  readonly base: string;
  /** Which certificate the port has to show. Empty without TLS. */
  readonly trust: RequestOptions;
}

/** @param admin as far as the settings could be read */
export function adminAddress({
  host = "127.0.0.1",
  port = 9090,
  tls = null,
}: Partial<Pick<Config["admin"], "host" | "port" | "tls">>): AdminAddress {
  const scheme = tls === null ? "http" : "https";
  return { base: `${scheme}://${reachable(host)}:${port}`, trust: tls === null ? {} : only(tls.cert) };
}

/**
 * Trusts this certificate and no other. It may come from an authority that Node does not know, and it is for the names by
 * which other machines reach the port.
 */
function only(cert: string): RequestOptions {
  return { ca: cert, allowPartialTrustChain: true, checkServerIdentity: () => undefined };
}

/** A gateway that listens on every address is asked on loopback. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return host.includes(":") ? `[${host}]` : host;
}
