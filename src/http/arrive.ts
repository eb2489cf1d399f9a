/**
 * A request as it arrives, before anything is known of it: its id, its app, and what is to be written
 * down of it when it ends.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Observer, Outcome, Tier } from "../types.ts";
import type { Resource } from "../interface/resources.ts";

/** Filled in as the journey goes on; read once, when the response has ended. */
export interface Arrival {
  readonly id: string;
  readonly app: string;
  readonly receivedAt: number;
  /** Aborted when the caller hangs up before the response is complete. */
  readonly gone: AbortSignal;
  /** Not `none` once it is admitted to a route. */
  resource: Resource | "none";
  /** Value of `Preference-Applied` (RFC 7240, section 3). */
  preferenceApplied: string | undefined;
  text: string | undefined;
  outcome: Outcome;
  tier: Tier | undefined;
  problem: string | undefined;
  bytes: number;
}

export interface ArrivalOptions {
  /** Header that names the app (`server.appIdHeader`), lower case. */
  readonly appIdHeader: string;
  /** Ids of the registered apps. */
  readonly apps: () => ReadonlySet<string>;
  readonly now: () => number;
  readonly requestId: () => string;
  readonly observer: Observer;
}

export type Arrive = (message: IncomingMessage, response: ServerResponse) => Arrival;

/** Status in log and metrics of a request whose caller hung up: no response carries it. */
const CLIENT_CLOSED_REQUEST = 499;

/** @returns the stage that greets every request and sees to it that it is written down at its end. */
export function createArrive(options: ArrivalOptions): Arrive {
  return function arrive(message, response) {
    const controller = new AbortController();
    const arrival: Arrival = {
      id: saneId(message.headers["x-request-id"]) ?? options.requestId(),
      app: appOf(message, options),
      receivedAt: options.now(),
      gone: controller.signal,
      resource: "none",
      preferenceApplied: undefined,
      text: undefined,
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
  const { id, app, resource, text, outcome, tier, problem, bytes, receivedAt } = arrival;
  return {
    id,
    app,
    method: message.method ?? "",
    resource,
    text,
    status: outcome === "abandoned" ? CLIENT_CLOSED_REQUEST : response.statusCode,
    outcome,
    tier,
    problem,
    durationMs: now - receivedAt,
    bytes,
  };
}

/** A caller's id is taken over if it can stand in a log line and a header as it is. */
function saneId(given: string | string[] | undefined): string | undefined {
  return typeof given === "string" && /^[\w.:/+=@-]{1,128}$/.test(given) ? given : undefined;
}

/** The label of apps that are not registered, and of callers that do not say which they are. */
const OTHER_APP = "other";

function appOf({ headers }: IncomingMessage, { appIdHeader, apps }: ArrivalOptions): string {
  const named = headers[appIdHeader];
  const given =
    typeof named === "string" && named.trim() !== "" ? named.trim() : firstProduct(headers["user-agent"]);
  return given !== undefined && apps().has(given) ? given : OTHER_APP;
}

/** The first product's name in `User-Agent`, without its version (RFC 9110, section 10.1.5). */
function firstProduct(userAgent: string | undefined): string | undefined {
  return /^\s*([^\s/()]+)/.exec(userAgent ?? "")?.[1];
}
