/** Listens on a port, closes the server again, and explains the error if the port is in use. */
import { once } from "node:events";
import type http from "node:http";
import type https from "node:https";

import type { Clock } from "./clock.ts";

/** The longest time for sending the refusals. */
const REFUSALS_MS = 500;

/** A server of either kind. */
export type HttpServer = http.Server | https.Server;

export type Listening = Awaited<ReturnType<typeof listen>>;

/**
 * Listens on an address.
 * @param port 0 means any free port
 * @returns the listening server; rejects if the address cannot be used
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export async function listen(server: HttpServer, port: number, host: string) {
  await once(server.listen(port, host), "listening");
  const address = server.address();
  const actual = typeof address === "object" && address !== null ? address.port : port;
  const shown = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host;
  const cut = (): void => server.closeAllConnections();
  return {
    port: actual,
    /** For example `http://127.0.0.1:8080`. A wildcard address is shown as localhost. */
    url: `${"setSecureContext" in server ? "https" : "http"}://${shown}:${actual}`,
    /**
     * Stops accepting connections, waits up to `drainMs` for requests in flight, then closes the remaining connections.
     * @param refuseRest refuses the remaining requests, when that time is over
     */
    close: async (clock: Clock, drainMs: number, refuseRest = cut): Promise<void> => {
      const cancels = [clock.after(drainMs, refuseRest), clock.after(drainMs + REFUSALS_MS, cut)];
      await once(server.close(), "close");
      for (const cancel of cancels) cancel();
    },
  };
}

/**
 * Explains the error of a server that could not listen.
 * @param changedBy how to change each configured port: the command-line option, and the variable and the setting if they exist
 * @returns one line; `undefined` if the error has another cause
 */
export function describePortInUse(
  error: unknown,
  changedBy: Readonly<Record<number, string>>,
): string | undefined {
  if (!(error instanceof Error) || Reflect.get(error, "code") !== "EADDRINUSE") return undefined;
  const port = Number(Reflect.get(error, "port"));
  return changedBy[port] && `Port ${port} is in use. Choose another with ${changedBy[port]}.`;
}
