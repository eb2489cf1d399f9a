/**
 * arrive: gives each request an id and finds its app. follow: logs and counts the request when it ends.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type {
  Observer,
  Outcome,
  PageSaving,
  RequestRecord,
  RequestTrace,
  Tier,
  Tracing,
} from "../telemetry/events.ts";
import type { Resource } from "../interface/resources.ts";
import { isSent } from "./connections.ts";

/** What the gateway knows about a request. The stages fill it in. It becomes the record for logs and metrics. */
export interface Arrival {
  readonly id: string;
  readonly app: string;
  readonly receivedAt: number;
  /** The same instant on the clock `ArrivalOptions.precise`. */
  readonly startedAt: number;
  /**
   * @returns the signal that aborts when the caller hangs up before the response is complete. The first call creates it,
   *   because most hits do not need it.
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
  /** Why the page cost no upstream call, if a cached block answered it. */
  saved?: PageSaving | undefined;
  /** For an answer that is not a hit: why the gateway asked the upstream; why the answer is stale or was not stored. */
  forwarded?: RequestRecord["forwarded"];
  detail?: RequestRecord["detail"];
  problem: string | undefined;
  bytes: number;
  /** The age of the answer, if it came from the cache. */
  ageMs: number | undefined;
  /** The CORS headers of the response; absent if `server.corsOrigins` is empty. */
  readonly corsHeaders: readonly string[] | undefined;
  readonly trace: RequestTrace | undefined;
  /** Call it when the caller has hung up. */
  readonly hangUp: () => void;
}

export interface ArrivalOptions {
  /** The header that names the app (`server.appIdHeader`), in lower case. */
  readonly appIdHeader: string;
  /** @returns the id of the app that sent the request */
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
   * Records the end of the request: immediately if the kernel already has the whole response, otherwise when the response
   * closes. Call it in the same tick as `arrive`, after all synchronous work.
   */
  readonly follow: (arrival: Arrival, message: IncomingMessage, response: ServerResponse) => void;
}

/** The status in logs and metrics for a request whose caller hung up. No response has this status. */
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
      // Reading the address makes Node remember it. Once the caller has hung up, it is no longer available.
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
