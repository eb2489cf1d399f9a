/**
 * admit: reads everything in a request except path and parameters: method, format, deadline and the app's rights. It
 * refuses requests that the gateway cannot serve, before any upstream call.
 */
import type { IncomingMessage } from "node:http";

import { Problem } from "../errors.ts";
import type { GatewayRequest } from "../query/question.ts";
import type { KnownTarget } from "../query/known-targets.ts";
import { memoize } from "../process/memoize.ts";
import type { Arrival } from "./arrive.ts";
import { deadlineOf, directivesOf } from "./caller-headers.ts";
import { negotiateCoding, negotiateFormat } from "./negotiate.ts";

export interface AdmitOptions {
  readonly service: string;
  /** The longest time from arrival to response, in milliseconds. A caller may ask for less. */
  readonly maxWaitMs: () => number;
  readonly rightsOf: (app: string) => Pick<GatewayRequest, "priority" | "mayForceRefresh">;
}

/** @param target as the caller wrote it */
export type Admit = (
  arrival: Arrival,
  message: IncomingMessage,
  target: string,
  found: KnownTarget,
) => GatewayRequest;

/** @returns the stage. The stage throws a `Problem` for a request that it refuses. */
export function createAdmit(options: AdmitOptions): Admit {
  const jsonFormat = memoize((accept) => negotiateFormat(accept, false, options.service));
  const imageFormat = memoize((accept) => negotiateFormat(accept, true, options.service));
  const coding = memoize(negotiateCoding);

  return function admit(arrival, { method, headers }, target, { route, search, parsed }) {
    const { record } = arrival;
    record.resource = route.resource;

    if (method !== "GET" && method !== "HEAD") {
      throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
    }
    const format = (route.resource === "images" ? imageFormat : jsonFormat)(headers.accept ?? "");
    if (format === undefined) throw new Problem("not-acceptable");
    const { waitMs, preferenceApplied } = deadlineOf(headers, options.maxWaitMs());
    arrival.preferenceApplied = preferenceApplied;
    const { priority, mayForceRefresh } = options.rightsOf(record.app);

    const acceptEncoding = headers["accept-encoding"];
    return {
      id: record.id,
      method,
      app: record.app,
      priority,
      mayForceRefresh,
      route,
      target,
      parsed,
      search,
      format,
      coding: acceptEncoding === undefined ? "identity" : coding(acceptEncoding),
      ifNoneMatch: headers["if-none-match"],
      ifModifiedSince: headers["if-modified-since"],
      directives: directivesOf(headers),
      receivedAt: record.receivedAt,
      deadlineAt: record.receivedAt + waitMs,
      gone: arrival.gone,
      trace: arrival.trace,
    };
  };
}
