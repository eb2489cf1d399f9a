/** Listens on a port, closes the server again, and explains the error if the port is in use. */
import type http from "node:http";
import type https from "node:https";

import type { Clock } from "./clock.ts";

/** Called when the time for requests in flight is over. Refuses the remaining requests. */
type RefuseRest = () => void;

/** The longest time for sending the refusals. */
const REFUSALS_MS = 500;

/** A server of either kind. */
export type HttpServer = http.Server | https.Server;

/** A listening server. */
export interface Listening {
  readonly port: number;
  /** For example `http://127.0.0.1:8080`. A wildcard address is shown as localhost. */
  readonly url: string;
  /** Stops accepting connections, waits up to `drainMs` for requests in flight, then closes the remaining connections. */
  readonly close: (clock: Clock, drainMs: number, refuseRest?: RefuseRest) => Promise<void>;
}

/**
 * Listens on an address.
 * @param port 0 means any free port
 * @returns the listening server; rejects if the address cannot be used
 */
export async function listen(server: HttpServer, port: number, host: string): Promise<Listening> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(port, host, resolve);
  await promise;
  server.off("error", reject);
  const address = server.address();
  const actual = typeof address === "object" && address !== null ? address.port : port;
  const shown = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host;
  return {
    port: actual,
    url: `${"setSecureContext" in server ? "https" : "http"}://${shown}:${actual}`,
    close: (clock, drainMs, refuseRest) => close(server, clock, drainMs, refuseRest),
  };
}

async function close(
  server: HttpServer,
  clock: Clock,
  drainMs: number,
  refuseRest: RefuseRest | undefined,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const cut = (): void => server.closeAllConnections();
  let cancel = clock.after(drainMs, () => {
    refuseRest?.();
    if (refuseRest === undefined) cut();
    else cancel = clock.after(REFUSALS_MS, cut);
  });
  await promise;
  cancel();
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
  return (
    changedBy[port] && `Port ${port} is in use by another program. Choose another with ${changedBy[port]}.`
  );
}
