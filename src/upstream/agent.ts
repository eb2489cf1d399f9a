/**
 * The connections to one address of the upstream.
 */
import http from "node:http";
import https from "node:https";
import net from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";

import { verifiedTls } from "../process/tls.ts";

export interface AgentOptions {
  readonly baseUrl: string;
  /** The most connections at the same time. */
  readonly connections: number;
  /** The certificate authorities to trust, as PEM. `null` means Node's own. */
  readonly ca: string | null;
  /** The HTTP proxies by protocol of the address, and the hosts that are reached without a proxy. */
  readonly proxy: ProxySettings;
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

/** @returns the only connection pool for an address */
export function createAgent({ baseUrl, connections, ca, proxy }: AgentOptions): http.Agent | https.Agent {
  const pool = {
    keepAlive: true,
    maxSockets: connections,
    scheduling: "lifo",
    ...agentProxy(proxy),
  } as const;
  const isProxied = "proxyEnv" in pool;
  return baseUrl.startsWith("https:")
    ? new (isProxied ? https.Agent : ResettableAgent)({ ...pool, ...verifiedTls(ca) })
    : new http.Agent(pool);
}

/** The TCP connections below TLS ones, because Node resets only TCP connections. */
const tcpBelow = new WeakMap<Duplex, net.Socket>();

class ResettableAgent extends https.Agent {
  override createConnection(
    ...[options, callback]: Parameters<https.Agent["createConnection"]>
  ): Duplex | null | undefined {
    const { host, port } = options;
    const tcp = net.connect({ host: host ?? "localhost", port: Number(port ?? 443), noDelay: true });
    const secure = super.createConnection(Object.assign(options, { socket: tcp }), callback);
    if (secure) tcpBelow.set(secure, tcp);
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
