/**
 * Records the requests that arrive, so that tests can count and read them. Credentials are left out.
 */
import type { IncomingMessage } from "node:http";

import { CREDENTIAL_PARAMETERS } from "../../interface/parameters.ts";

/** A request as it arrived. Absent values are null. */
export interface Arrival {
  /** Epoch milliseconds, by the sandbox's clock without skew. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  /** As spelled by the caller, without `?` and without credentials. */
  readonly query: string;
  /** Null until it is answered. */
  readonly status: number | null;
  readonly userAgent: string | null;
  readonly accept: string | null;
  /** Whether it carried `If-None-Match` or `If-Modified-Since`. */
  readonly conditional: boolean;
  /** Lower case, in the order of the request. */
  readonly headerNames: readonly string[];
}

/** The number of requests since the start or the last clearing. The list may have fewer. */
export interface ArrivalCounts {
  readonly total: number;
  readonly byResource: Readonly<Record<string, number>>;
}

export interface ArrivalLog {
  /** @returns a function to call with the status, once it is known */
  readonly record: (request: IncomingMessage, at: number) => (status: number) => void;
  /** Oldest first. */
  readonly list: () => Arrival[];
  readonly counts: () => ArrivalCounts;
  readonly clear: () => void;
  /** Resolves when at least this many requests have arrived since the start or the last clearing. */
  readonly waitFor: (total: number) => Promise<void>;
}

const REMEMBERED = 10_000;

/** The credentials, and names that callers have sent by mistake. */
const SECRET_NAMES = new Set(
  [...CREDENTIAL_PARAMETERS, "key", "privateKey"].map((name) => name.toLowerCase()),
);

/** The query as spelled, without the credential parameters. */
function withoutCredentials(query: string): string {
  const isSecret = (pair: string): boolean =>
    [...new URLSearchParams(pair).keys()].some((name) => SECRET_NAMES.has(name.trim().toLowerCase()));
  return query
    .split("&")
    .filter((pair) => !isSecret(pair))
    .join("&");
}

/**
 * Splits an address into path and query. An `&` before any `?` also ends the path: some callers write
 * `/listings/1&callerId=…`, and a credential must not get into the list that way.
 */
function splitAddress(address: string): { path: string; query: string } {
  const end = address.search(/[?&]/);
  if (end === -1) return { path: address, query: "" };
  const query = address.slice(end + 1).replaceAll("?", "&");
  return { path: address.slice(0, end), query: withoutCredentials(query) };
}

function resourceOf(path: string): string {
  const first = path.split("/").find((part) => part !== "") ?? "";
  if (first === "cache") return "images";
  return ["listings", "sold", "areas"].includes(first) ? first : "other";
}

function describe(request: IncomingMessage, at: number): Arrival {
  const { headers } = request;
  return {
    at,
    method: request.method ?? "",
    ...splitAddress(request.url ?? ""),
    status: null,
    userAgent: headers["user-agent"] ?? null,
    accept: headers.accept ?? null,
    conditional: (headers["if-none-match"] ?? headers["if-modified-since"]) !== undefined,
    headerNames: request.rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase()),
  };
}

export function createArrivalLog(): ArrivalLog {
  let list: { arrival: Arrival }[] = [];
  let total = 0;
  const byResource = new Map<string, number>();
  let waiters: { total: number; resolve: () => void }[] = [];

  return {
    record(request, at) {
      const entry = { arrival: describe(request, at) };
      list.push(entry);
      // Cut rarely and in large pieces, because each cut copies the list.
      if (list.length > REMEMBERED * 2) list = list.slice(-REMEMBERED);
      total += 1;
      const resource = resourceOf(entry.arrival.path);
      byResource.set(resource, (byResource.get(resource) ?? 0) + 1);
      for (const waiter of waiters) if (waiter.total <= total) waiter.resolve();
      waiters = waiters.filter((waiter) => waiter.total > total);
      return (status) => {
        entry.arrival = { ...entry.arrival, status };
      };
    },
    list: () => list.slice(-REMEMBERED).map(({ arrival }) => arrival),
    counts: () => ({
      total,
      byResource: Object.fromEntries(byResource),
    }),
    clear() {
      list = [];
      total = 0;
      byResource.clear();
    },
    waitFor(wanted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      if (total >= wanted) resolve();
      else waiters.push({ total: wanted, resolve });
      return promise;
    },
  };
}
