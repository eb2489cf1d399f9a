/**
 * admit: reads everything of a request but its parameters: method, path, format, deadline, the app's rights. It refuses
 * what it cannot serve, before any upstream call.
 */
import type { IncomingMessage } from "node:http";

import { Problem } from "../errors.ts";
import type { GatewayRequest } from "../types.ts";
import type { Route } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import type { Arrival } from "./arrive.ts";
import { deadlineOf, directivesOf } from "./caller-headers.ts";
import { negotiateCoding, negotiateFormat } from "./negotiate.ts";
import { checkHead, type HeadLimits } from "./request-validation.ts";

export interface AdmitOptions {
  readonly route: (path: string) => Route;
  readonly service: string;
  readonly head: HeadLimits;
  /** The longest time from arrival to response, in milliseconds. A caller may ask for less. */
  readonly maxWaitMs: () => number;
  readonly rightsOf: (app: string) => Pick<GatewayRequest, "priority" | "mayForceRefresh">;
}

export type Admit = (arrival: Arrival, message: IncomingMessage) => GatewayRequest;

/** @returns the stage. It throws a `Problem` for a request that is not admitted. */
export function createAdmit(options: AdmitOptions): Admit {
  return function admit(arrival, message) {
    checkHead(message, options.head);
    const { path, search } = splitTarget(message.url ?? "/");
    const route = options.route(path);
    if (route.kind === "unknown") throw unknownPath(route.near);
    arrival.resource = route.resource;

    const { method, headers } = message;
    if (method !== "GET" && method !== "HEAD") {
      throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
    }
    const format = negotiateFormat(headers.accept, route.resource === "images", options.service);
    if (format === undefined) throw new Problem("not-acceptable");
    const { waitMs, preferenceApplied } = deadlineOf(headers, options.maxWaitMs());
    arrival.preferenceApplied = preferenceApplied;

    return {
      id: arrival.id,
      method,
      app: arrival.app,
      route,
      search,
      format,
      coding: negotiateCoding(headers["accept-encoding"]?.toString()),
      ifNoneMatch: headers["if-none-match"],
      ifModifiedSince: headers["if-modified-since"],
      directives: directivesOf(headers),
      ...options.rightsOf(arrival.app),
      receivedAt: arrival.receivedAt,
      deadlineAt: arrival.receivedAt + waitMs,
      gone: arrival.gone,
    };
  };
}

function unknownPath(near: string | undefined): Problem {
  return new Problem("unknown-path", near === undefined ? {} : { detail: `Did you mean ${near}?` });
}
