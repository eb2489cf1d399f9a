/**
 * arrive: gives each request its id and its app. follow: sees to it that the end of the request is logged and counted.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Observer, Outcome, PageSaving, RequestRecord, RequestTrace, Tier, Tracing } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import { isSent } from "./connections.ts";

/** A request from its first moment on. The stages fill in the rest; it is read when the response has ended. */
export interface Arrival {
  readonly id: string;
  readonly app: string;
  readonly receivedAt: number;
  /** The same instant of `ArrivalOptions.precise`. */
  readonly startedAt: number;
  /**
   * @returns a signal, always the same, that is aborted when the caller hangs up before the response is complete. It is
   *   made when it is first needed, because most hits need none.
   */
  readonly gone: () => AbortSignal;
  /** `none` until the path is known. */
  resource: Resource | "none";
  /** Value of `Preference-Applied` (RFC 7240, section 3). */
  preferenceApplied: string | undefined;
  /** The canonical query, as soon as it is known. */
  query: string | undefined;
  outcome: Outcome;
  tier: Tier | undefined;
  /** Where a page cost no upstream call because of its block. */
  saved?: PageSaving | undefined;
  /** Of an answer that is no hit: why the upstream was asked, and why the answer is stale or was not stored. */
  forwarded?: RequestRecord["forwarded"];
  detail?: RequestRecord["detail"];
  problem: string | undefined;
  bytes: number;
  /** How old the answer from the cache was. */
  ageMs: number | undefined;
  /** For web pages of other origins; absent if none may ask. */
  readonly corsHeaders: readonly string[] | undefined;
  readonly trace: RequestTrace | undefined;
  /** To be called when the caller has hung up. */
  readonly hangUp: () => void;
}

export interface ArrivalOptions {
  /** The header that names the app (`server.appIdHeader`), in lower case. */
  readonly appIdHeader: string;
  /** @returns the id of the app that sends a request, by the headers of that name */
  readonly identify: (
    appId: string | readonly string[] | undefined,
    userAgent: string | undefined,
    now: number,
    authorization: string | undefined,
  ) => string;
  readonly now: () => number;
  /** Milliseconds with fractions, of a clock that never runs backwards. */
  readonly precise: () => number;
  readonly requestId: () => string;
  readonly observer: Observer;
  readonly corsHeaders: (origin: string | undefined) => readonly string[] | undefined;
  /** Absent if requests are not traced. */
  readonly startTrace?: Tracing["start"] | undefined;
}

export interface Arrivals {
  /** The first stage of every request. */
  readonly arrive: (message: IncomingMessage, response: ServerResponse) => Arrival;
  /**
   * Observes the end of the request: at once, if its response is with the kernel already. Call it in the same tick as
   * `arrive`, when everything that can be done at once has been done.
   */
  readonly follow: (arrival: Arrival, message: IncomingMessage, response: ServerResponse) => void;
}

/** The status in logs and metrics of a request whose caller hung up. No response carries it. */
const CLIENT_CLOSED_REQUEST = 499;

export function createArrivals(options: ArrivalOptions): Arrivals {
  const { precise, observer } = options;
  const ended = (arrival: Arrival, message: IncomingMessage, response: ServerResponse): void => {
    const record = recordOf(arrival, message, response, precise() - arrival.startedAt);
    arrival.trace?.end(record);
    observer.request(record, message);
  };
  return {
    arrive: (message) => newArrival(message, options),
    follow(arrival, message, response) {
      if (isSent(response)) {
        ended(arrival, message, response);
        return;
      }
      // Node remembers the address. It cannot be asked for when the caller has hung up.
      void message.socket.remoteAddress;
      response.once("close", () => {
        if (!response.writableFinished) {
          arrival.hangUp();
          arrival.outcome = "abandoned";
        }
        ended(arrival, message, response);
      });
    },
  };
}

function newArrival(message: IncomingMessage, options: ArrivalOptions): Arrival {
  let controller: AbortController | undefined;
  let hasHungUp = false;
  const { headers } = message;
  const receivedAt = options.now();
  return {
    id: usableId(headers["x-request-id"]) ?? options.requestId(),
    app: options.identify(
      headers[options.appIdHeader],
      headers["user-agent"],
      receivedAt,
      headers.authorization,
    ),
    receivedAt,
    startedAt: options.precise(),
    gone() {
      controller ??= new AbortController();
      if (hasHungUp) controller.abort();
      return controller.signal;
    },
    hangUp() {
      hasHungUp = true;
      controller?.abort();
    },
    resource: "none",
    preferenceApplied: undefined,
    query: undefined,
    outcome: "refused",
    tier: undefined,
    problem: undefined,
    bytes: 0,
    ageMs: undefined,
    corsHeaders: options.corsHeaders(headers.origin),
    trace: options.startTrace?.(message),
  };
}

function recordOf(
  arrival: Arrival,
  message: IncomingMessage,
  response: ServerResponse,
  durationMs: number,
): Parameters<Observer["request"]>[0] {
  const { id, app, resource, query, outcome, tier, saved, problem, bytes, ageMs, receivedAt, trace } =
    arrival;
  return {
    id,
    app,
    method: message.method ?? "",
    resource,
    query,
    status: outcome === "abandoned" ? CLIENT_CLOSED_REQUEST : response.statusCode,
    outcome,
    tier,
    problem,
    durationMs,
    bytes,
    receivedAt,
    ageMs,
    ...(saved !== undefined && { saved }),
    ...(arrival.forwarded !== undefined && { forwarded: arrival.forwarded }),
    ...(arrival.detail !== undefined && { detail: arrival.detail }),
    ...(trace && { traceparent: trace.traceparent }),
  };
}

/** @returns the caller's own request id, if it is safe in a header and in a log line */
function usableId(given: string | string[] | undefined): string | undefined {
  return typeof given === "string" && /^[\w.:/+=@-]{1,128}$/.test(given) ? given : undefined;
}
