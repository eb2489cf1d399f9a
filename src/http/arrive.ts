/**
 * arrive: gives each request an id and finds its app. follow: logs and counts the request when it ends, and knows which
 * requests are open.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Observer, RequestRecord, RequestTrace, Tracing } from "../telemetry/events.ts";
import type { Problem } from "../errors.ts";
import { isSent } from "./edge/connections.ts";

/** A request on its way through the stages. */
export interface Arrival {
  /** What logs and metrics show of the request. The stages fill it in. */
  readonly record: { -readonly [Field in keyof RequestRecord]: RequestRecord[Field] };
  /** When it arrived, on the clock `ArrivalOptions.precise`. */
  readonly startedAt: number;
  /**
   * @returns the signal that aborts when the caller hangs up before the response is complete. The first call creates it,
   *   because most hits do not need it.
   */
  readonly gone: () => AbortSignal;
  /** Call it when the caller has hung up. */
  readonly hangUp: () => void;
  /** Value of `Preference-Applied` (RFC 7240, section 3). */
  preferenceApplied: string | undefined;
  /** The CORS headers of the response; absent if `server.corsOrigins` is empty. */
  readonly corsHeaders: readonly string[] | undefined;
  readonly trace: RequestTrace | undefined;
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
  /** Ends a request with a problem. */
  readonly refuse: (arrival: Arrival, problem: Problem, response: ServerResponse) => void;
  /** Absent if requests are not traced. */
  readonly startTrace?: Tracing["start"] | undefined;
}

export interface Arrivals extends OpenRequests {
  /** The first stage of every request. */
  readonly arrive: (message: IncomingMessage, response: ServerResponse) => Arrival;
  /**
   * Records the end of the request: immediately if the kernel already has the whole response, otherwise when the response
   * closes. Call it in the same tick as `arrive`, after all synchronous work.
   */
  readonly follow: (arrival: Arrival, message: IncomingMessage, response: ServerResponse) => void;
}

/** The requests that have arrived and whose responses have not ended. When the process stops, each is finished or refused. */
export interface OpenRequests {
  /**
   * Adds `Connection: close` to every response from now on (RFC 9112, section 9.6). Callers and load balancers then open
   * their next connection to another replica, and send no request on a connection that is about to close.
   */
  readonly drain: () => void;
  /** Refuses every request that has no response yet. */
  readonly refuseAll: (problem: Problem) => void;
}

/** The status in logs and metrics for a request whose caller hung up. No response has this status. */
const CLIENT_CLOSED_REQUEST = 499;

export function createArrivals(options: ArrivalOptions): Arrivals {
  const { precise, observer } = options;
  const ended = (arrival: Arrival, message: IncomingMessage, response: ServerResponse): void => {
    const { record } = arrival;
    record.status = record.outcome === "abandoned" ? CLIENT_CLOSED_REQUEST : response.statusCode;
    record.durationMs = precise() - arrival.startedAt;
    arrival.trace?.end(record);
    observer.request(record, message);
  };
  const open = new Map<ServerResponse, Arrival>();
  let isDraining = false;
  return {
    arrive(message, response) {
      if (isDraining) closeAfterResponse(response);
      return newArrival(message, options);
    },
    follow(arrival, message, response) {
      if (isSent(response)) {
        ended(arrival, message, response);
        return;
      }
      // Reading the address makes Node remember it. Once the caller has hung up, it is no longer available.
      void message.socket.remoteAddress;
      open.set(response, arrival);
      response.once("close", () => {
        open.delete(response);
        if (!response.writableFinished) {
          arrival.hangUp();
          arrival.record.outcome = "abandoned";
        }
        ended(arrival, message, response);
      });
    },
    drain() {
      isDraining = true;
      for (const response of open.keys()) closeAfterResponse(response);
    },
    refuseAll(problem) {
      // Once the head of a response is sent, the response cannot be changed.
      for (const [response, arrival] of open)
        if (!response.headersSent) options.refuse(arrival, problem, response);
    },
  };
}

function closeAfterResponse(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader("Connection", "close");
}

function newArrival(message: IncomingMessage, options: ArrivalOptions): Arrival {
  let controller: AbortController | undefined;
  let hasHungUp = false;
  const { headers } = message;
  const receivedAt = options.now();
  const trace = options.startTrace?.(message);
  const { "x-request-id": id, "user-agent": userAgent, authorization } = headers;
  return {
    record: {
      id: usableId(id) ?? options.requestId(),
      app: options.identify(headers[options.appIdHeader], userAgent, receivedAt, authorization),
      method: message.method ?? "",
      resource: "none",
      query: undefined,
      status: 0,
      outcome: "refused",
      tier: undefined,
      problem: undefined,
      durationMs: 0,
      bytes: 0,
      receivedAt,
      traceparent: trace?.traceparent,
    },
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
    preferenceApplied: undefined,
    corsHeaders: options.corsHeaders(headers.origin),
    trace,
  };
}

/** @returns the caller's own request id, if it is safe in a header and in a log line */
function usableId(given: string | string[] | undefined): string | undefined {
  return typeof given === "string" && /^[\w.:/+=@-]{1,128}$/.test(given) ? given : undefined;
}
