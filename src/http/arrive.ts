/**
 * arrive: gives each request its id and its app, and sees to it that the end of the request is logged and counted.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import { type Observer, type Outcome, type PageSaving, type Tier } from "../types.ts";
import type { Resource } from "../interface/resources.ts";

/** A request from its first moment on. The stages fill in the rest; it is read when the response has ended. */
export interface Arrival {
  readonly id: string;
  readonly app: string;
  readonly receivedAt: number;
  /** Aborted when the caller hangs up before the response is complete. */
  readonly gone: AbortSignal;
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
  problem: string | undefined;
  bytes: number;
}

export interface ArrivalOptions {
  /** The header that names the app (`server.appIdHeader`), in lower case. */
  readonly appIdHeader: string;
  /** @returns the id of the app that sends a request */
  readonly identify: (
    appId: string | readonly string[] | undefined,
    userAgent: string | undefined,
    now: number,
  ) => string;
  readonly now: () => number;
  readonly requestId: () => string;
  readonly observer: Observer;
}

export type Arrive = (message: IncomingMessage, response: ServerResponse) => Arrival;

/** The status in logs and metrics of a request whose caller hung up. No response carries it. */
const CLIENT_CLOSED_REQUEST = 499;

/** @returns the first stage of every request */
export function createArrive(options: ArrivalOptions): Arrive {
  return function arrive(message, response) {
    const controller = new AbortController();
    const { headers } = message;
    const receivedAt = options.now();
    const arrival: Arrival = {
      id: usableId(headers["x-request-id"]) ?? options.requestId(),
      app: options.identify(headers[options.appIdHeader], headers["user-agent"], receivedAt),
      receivedAt,
      gone: controller.signal,
      resource: "none",
      preferenceApplied: undefined,
      query: undefined,
      outcome: "refused",
      tier: undefined,
      problem: undefined,
      bytes: 0,
    };
    response.setHeader("X-Request-Id", arrival.id);
    response.once("close", () => {
      if (!response.writableFinished) {
        controller.abort();
        arrival.outcome = "abandoned";
      }
      options.observer.request(recordOf(arrival, message, response, options.now()));
    });
    return arrival;
  };
}

function recordOf(
  arrival: Arrival,
  message: IncomingMessage,
  response: ServerResponse,
  now: number,
): Parameters<Observer["request"]>[0] {
  const { id, app, resource, query, outcome, tier, saved, problem, bytes, receivedAt } = arrival;
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
    durationMs: now - receivedAt,
    bytes,
    ...(saved !== undefined && { saved }),
  };
}

/** @returns the caller's own request id, if it is safe in a header and in a log line */
function usableId(given: string | string[] | undefined): string | undefined {
  return typeof given === "string" && /^[\w.:/+=@-]{1,128}$/.test(given) ? given : undefined;
}
