import type { Server } from "node:http";

import type { Clock } from "./clock.ts";

/** What is still to be said to those who would be cut. */
type LastWords = () => void;

/** So long last words may take to arrive. */
const LAST_WORDS_MS = 500;

/** A server that listens. */
export interface Listening {
  readonly host: string;
  readonly port: number;
  /** e.g. `http://127.0.0.1:8080`; a wildcard address is shown as localhost. */
  readonly url: string;
  /** Stops accepting, waits for requests in flight, and cuts what is left after `drainMs`. */
  readonly close: (clock: Clock, drainMs: number, lastWords?: LastWords) => Promise<void>;
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
    close: (clock, drainMs, lastWords) => close(server, clock, drainMs, lastWords),
  };
}

async function close(
  server: Server,
  clock: Clock,
  drainMs: number,
  lastWords: LastWords | undefined,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const cut = (): void => server.closeAllConnections();
  let cancel = clock.after(drainMs, () => {
    lastWords?.();
    if (lastWords === undefined) cut();
    else cancel = clock.after(LAST_WORDS_MS, cut);
  });
  await promise;
  cancel();
}
