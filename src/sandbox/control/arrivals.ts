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

export class ArrivalLog {
  #list: { arrival: Arrival }[] = [];
  #total = 0;
  readonly #byResource = new Map<string, number>();
  #waiters: { total: number; resolve: () => void }[] = [];

  /** @returns a function to call with the status, once it is known */
  record(request: IncomingMessage, at: number): (status: number) => void {
    const entry = { arrival: describe(request, at) };
    this.#list.push(entry);
    // Cut rarely and in large pieces, because each cut copies the list.
    if (this.#list.length > REMEMBERED * 2) this.#list = this.#list.slice(-REMEMBERED);
    this.#total += 1;
    const resource = resourceOf(entry.arrival.path);
    this.#byResource.set(resource, (this.#byResource.get(resource) ?? 0) + 1);
    for (const waiter of this.#waiters) if (waiter.total <= this.#total) waiter.resolve();
    this.#waiters = this.#waiters.filter((waiter) => waiter.total > this.#total);
    return (status) => {
      entry.arrival = { ...entry.arrival, status };
    };
  }

  /** Oldest first. */
  list(): Arrival[] {
    return this.#list.slice(-REMEMBERED).map(({ arrival }) => arrival);
  }

  counts(): ArrivalCounts {
    return { total: this.#total, byResource: Object.fromEntries(this.#byResource) };
  }

  clear(): void {
    this.#list = [];
    this.#total = 0;
    this.#byResource.clear();
  }

  /** Resolves when at least this many requests have arrived since the start or the last clearing. */
  waitFor(wanted: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.#total >= wanted) resolve();
    else this.#waiters.push({ total: wanted, resolve });
    return promise;
  }
}
