/**
 * The connections to one address of the upstream.
 */
import http from "node:http";
import https from "node:https";
import net from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";

import type { Config } from "../config/config.ts";
import { verifiedTls } from "../process/tls.ts";

export type Agent = http.Agent | https.Agent;

const THIS_MACHINE = "localhost,127.0.0.1,[::1],::1";

/** @returns the only connection pool for an address */
export function createAgent(baseUrl: string, { ca, proxy }: Pick<Config["upstream"], "ca" | "proxy">): Agent {
  // There is no `maxSockets`, because `budget.concurrency` limits the calls in flight.
  const pool = { keepAlive: true, scheduling: "lifo" } as const;
  const isProxied = proxy.http !== null || proxy.https !== null;
  // Node's agents expect proxies in the form of environment variables.
  const proxyEnv = {
    ...(proxy.http !== null && { HTTP_PROXY: proxy.http.reveal() }),
    ...(proxy.https !== null && { HTTPS_PROXY: proxy.https.reveal() }),
    NO_PROXY: proxy.except === null ? THIS_MACHINE : `${proxy.except},${THIS_MACHINE}`,
  };
  const options = isProxied ? { ...pool, proxyEnv } : pool;
  if (!baseUrl.startsWith("https:")) return new http.Agent(options);
  return new (isProxied ? https.Agent : ResettableAgent)({ ...options, ...verifiedTls(ca) });
}

/** The TCP connections below TLS ones, because Node resets only TCP connections. */
const tcpBelow = new WeakMap<Duplex, net.Socket>();

class ResettableAgent extends https.Agent {
  override createConnection(
    ...[options, callback]: Parameters<https.Agent["createConnection"]>
  ): Duplex | null | undefined {
    // Node's own agent uses the same delay for TCP keep-alive, but cannot set it on a connection below TLS.
    const tcp = new net.Socket().setNoDelay().setKeepAlive(true, 1_000);
    const secure = super.createConnection(Object.assign(options, { socket: tcp }), callback);
    if (secure) tcpBelow.set(secure, tcp);
    // Connect last. If TLS held the connection's handle, Node would crash when the connection replaces the handle to try the next
    // address, or is reset after TLS has closed it.
    tcp.connect(Number(options.port ?? 443), options.host ?? "localhost");
    return secure;
  }
}

/**
 * Gives up a call. Resets its connection, because the kernel would go on sending what the upstream has not confirmed yet: the
 * call could arrive after its permit has expired. A TLS connection through a proxy is only closed.
 */
export function resetCall(call: http.ClientRequest): void {
  const { socket } = call;
  const tcp = socket && (tcpBelow.get(socket) ?? socket);
  if (tcp instanceof net.Socket && !(tcp instanceof TLSSocket) && !tcp.connecting) tcp.resetAndDestroy();
  call.destroy();
}
