import type { Server } from "node:http";

import type { Clock } from "./clock.ts";

/** A server that listens. */
export interface Listening {
  readonly host: string;
  readonly port: number;
  /** e.g. `http://127.0.0.1:8080`; a wildcard address is shown as localhost. */
  readonly url: string;
  /** Stops accepting, waits for requests in flight, and cuts what is left after `drainMs`. */
  readonly close: (clock: Clock, drainMs: number) => Promise<void>;
}

/**
 * Listens on an address.
 * @param port 0 takes any free port
 * @returns once it listens; rejects where the address cannot be had
 */
export async function listen(server: Server, port: number, host: string): Promise<Listening> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(port, host, resolve);
  await promise;
  server.off("error", reject);
  const address = server.address();
  const actual = typeof address === "object" && address !== null ? address.port : port;
  const shown = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host;
  return {
    host,
    port: actual,
    url: `http://${shown}:${actual}`,
    close: (clock, drainMs) => close(server, clock, drainMs),
  };
}

async function close(server: Server, clock: Clock, drainMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const cancel = clock.after(drainMs, () => server.closeAllConnections());
  await promise;
  cancel();
}
