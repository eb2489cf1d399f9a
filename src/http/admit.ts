/**
 * admit: reads everything in a request except its parameters: method, path, format, deadline and the app's rights. It
 * refuses requests that the gateway cannot serve, before any upstream call.
 */
import type { IncomingMessage } from "node:http";

import { Problem } from "../errors.ts";
import type { GatewayRequest } from "../query/question.ts";
import { type KnownTarget, type KnownTargets, NOT_PARSED } from "../query/known-targets.ts";
import type { Route } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import { memoize } from "../process/memoize.ts";
import type { Arrival } from "./arrive.ts";
import { deadlineOf, directivesOf } from "./caller-headers.ts";
import { negotiateCoding, negotiateFormat } from "./negotiate.ts";

export interface AdmitOptions {
  readonly route: (path: string) => Route;
  /** Finds a target that was parsed before. */
  readonly known: KnownTargets["find"];
  readonly service: string;
  /** The longest time from arrival to response, in milliseconds. A caller may ask for less. */
  readonly maxWaitMs: () => number;
  readonly rightsOf: (app: string) => Pick<GatewayRequest, "priority" | "mayForceRefresh">;
}

export type Admit = (arrival: Arrival, message: IncomingMessage) => GatewayRequest;

/** @returns the stage. The stage throws a `Problem` for a request that it refuses. */
export function createAdmit(options: AdmitOptions): Admit {
  const jsonFormat = memoize((accept) => negotiateFormat(accept, false, options.service));
  const imageFormat = memoize((accept) => negotiateFormat(accept, true, options.service));
  const coding = memoize(negotiateCoding);

  return function admit(arrival, message) {
    const { method, headers, url: target = "/" } = message;
    const { route, search, parsed } = options.known(target) ?? newTarget(target, options.route);
    arrival.resource = route.resource;

    if (method !== "GET" && method !== "HEAD") {
      throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
    }
    const format = (route.resource === "images" ? imageFormat : jsonFormat)(headers.accept ?? "");
    if (format === undefined) throw new Problem("not-acceptable");
    const { waitMs, preferenceApplied } = deadlineOf(headers, options.maxWaitMs());
    arrival.preferenceApplied = preferenceApplied;
    const { priority, mayForceRefresh } = options.rightsOf(arrival.app);

    const acceptEncoding = headers["accept-encoding"];
    return {
      id: arrival.id,
      method,
      app: arrival.app,
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
      receivedAt: arrival.receivedAt,
      deadlineAt: arrival.receivedAt + waitMs,
      gone: arrival.gone,
      trace: arrival.trace,
    };
  };
}

function newTarget(target: string, route: AdmitOptions["route"]): KnownTarget {
  const { path, search } = splitTarget(target);
  const to = route(path);
  if (to.kind === "unknown") throw unknownPath(to.near);
  return { route: to, search, parsed: NOT_PARSED };
}

function unknownPath(near: string | undefined): Problem {
  return new Problem("unknown-path", near === undefined ? {} : { detail: `Did you mean ${near}?` });
}
