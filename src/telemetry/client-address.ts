/** The address of a caller, as far as trusted proxies tell it. */
import { isIP } from "node:net";

import proxyAddr from "proxy-addr";

import type { CallerFacts } from "../types.ts";

/**
 * @param trusted addresses and networks of proxies; `loopback`, `linklocal` and `uniquelocal` name networks
 * @returns a function that gives the first address, seen from the gateway, that is not a trusted proxy. So it reads
 *   `X-Forwarded-For` only as far as trusted proxies have written it. `undefined` if the connection is closed already
 */
export function createClientAddress(trusted: readonly string[]): (caller: CallerFacts) => string | undefined {
  if (trusted.length === 0) return ({ socket }) => socket.remoteAddress;
  const isTrusted = proxyAddr.compile([...trusted]);
  return ({ headers, socket: { remoteAddress = "" } }) => {
    const forwarded = String(headers["x-forwarded-for"] ?? "").split(",");
    // Each proxy adds the address of its own caller at the end.
    const addresses = [...forwarded.map((address) => address.trim()), remoteAddress].toReversed();
    const client = addresses.find((address, distance) => !isTrusted(address, distance)) ?? addresses.at(-1);
    const shown = isIP(client ?? "") === 0 ? remoteAddress : client;
    return shown === "" ? undefined : shown;
  };
}
