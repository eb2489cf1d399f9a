/**
 * admit: reads method, format, deadline and the app's rights, and turns the query string into the canonical query and its cache
 * key. It refuses requests that the gateway cannot serve, before any upstream call, and reports every mistake in a query.
 */
import { Problem } from "../errors.ts";
import type { Format } from "../interface/media-types.ts";
import { memoize } from "../process/memoize.ts";
import type { KnownTarget, KnownTargets } from "../query/known-targets.ts";
import { type ParseOptions, parseQuery } from "../query/parse.ts";
import type { AnyQuery, ParsedQuery } from "../query/query.ts";
import type { Question } from "../query/request.ts";
import type { KnownRoute } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import type { Arrival } from "./arrive.ts";
import type { Identify } from "./identify-app.ts";
import { deadlineOf, directivesOf, negotiateCoding, negotiateFormat } from "./request-headers.ts";

export interface AdmitOptions {
  /** The service's neutral media-type name (`upstream.service`). */
  readonly service: string;
  /** The longest time from arrival to response, in milliseconds. A caller may ask for less. */
  readonly maxWaitMs: () => number;
  readonly identify: Identify;
  readonly parse: ParseOptions;
  readonly knownTargets: KnownTargets;
}

export type AnyQuestion = Question<AnyQuery>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createAdmit({ service, maxWaitMs, identify, parse, knownTargets }: AdmitOptions) {
  const jsonFormat = memoize((accept) => negotiateFormat(accept, false, service));
  const imageFormat = memoize((accept) => negotiateFormat(accept, true, service));
  const coding = memoize(negotiateCoding);

  function parseAndRemember(target: string, route: KnownRoute, format: Format): ParsedQuery<AnyQuery> {
    const parsed = parseQuery(route, splitTarget(target).search, format, parse);
    knownTargets.remember(target, route, format, parsed);
    return parsed;
  }

  /** @throws {Problem} for a request that the gateway refuses */
  return function admit(arrival: Arrival, { route, parsed }: KnownTarget): AnyQuestion {
    const { record, target } = arrival;
    const { method, headers } = arrival.message;
    record.resource = route.resource;

    if (method !== "GET" && method !== "HEAD")
      throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
    const format = (route.resource === "images" ? imageFormat : jsonFormat)(headers.accept ?? "");
    if (format === undefined) throw new Problem("not-acceptable");
    const { waitMs, preferenceApplied } = deadlineOf(headers, maxWaitMs());
    arrival.preferenceApplied = preferenceApplied;
    const directives = directivesOf(headers);
    // A known target is not parsed again.
    const { query, canonicalQuery, key } = parsed[format] ?? parseAndRemember(target, route, format);
    record.query = canonicalQuery;
    if (query.kind === "streamed" && directives.onlyIfCached === true) throw new Problem("not-in-cache");

    const { priority, mayForceRefresh } = identify.rightsOf(record.app);
    const request = {
      id: record.id,
      method,
      app: record.app,
      priority,
      mayForceRefresh,
      format,
      coding: coding(headers["accept-encoding"] ?? ""),
      ifNoneMatch: headers["if-none-match"],
      ifModifiedSince: headers["if-modified-since"],
      directives,
      receivedAt: record.receivedAt,
      deadlineAt: record.receivedAt + waitMs,
      gone: arrival.gone,
      trace: arrival.trace,
    } as const;
    return { request, query, canonicalQuery, key };
  };
}
