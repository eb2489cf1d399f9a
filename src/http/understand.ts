/**
 * admit: reads everything in a request except path and parameters: method, format, deadline and the app's rights. It
 * refuses requests that the gateway cannot serve, before any upstream call.
 *
 * understand: turns the query string into the canonical query and its cache key, or reports every mistake in it.
 */
import { Problem } from "../errors.ts";
import type { Format } from "../interface/media-types.ts";
import { memoize } from "../process/memoize.ts";
import type { KnownTarget, KnownTargets } from "../query/known-targets.ts";
import { type ParseOptions, parseQuery } from "../query/parse.ts";
import type { AnyQuery, ParsedQuery } from "../query/query.ts";
import type { GatewayRequest, Question } from "../query/request.ts";
import type { KnownRoute } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import type { Arrival } from "./arrive.ts";
import type { Identify } from "./identify-app.ts";
import { deadlineOf, directivesOf, negotiateCoding, negotiateFormat } from "./request-headers.ts";

export interface UnderstandOptions {
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
export function createUnderstand(options: UnderstandOptions) {
  const jsonFormat = memoize((accept) => negotiateFormat(accept, false, options.service));
  const imageFormat = memoize((accept) => negotiateFormat(accept, true, options.service));
  const coding = memoize(negotiateCoding);

  function admit(arrival: Arrival, { route }: KnownTarget): GatewayRequest {
    const { record } = arrival;
    const { method, headers } = arrival.message;
    record.resource = route.resource;

    if (method !== "GET" && method !== "HEAD") {
      throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
    }
    const format = (route.resource === "images" ? imageFormat : jsonFormat)(headers.accept ?? "");
    if (format === undefined) throw new Problem("not-acceptable");
    const { waitMs, preferenceApplied } = deadlineOf(headers, options.maxWaitMs());
    arrival.preferenceApplied = preferenceApplied;
    const { priority, mayForceRefresh } = options.identify.rightsOf(record.app);

    const acceptEncoding = headers["accept-encoding"];
    return {
      id: record.id,
      method,
      app: record.app,
      priority,
      mayForceRefresh,
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
  }

  function parseAndRemember(target: string, route: KnownRoute, format: Format): ParsedQuery<AnyQuery> {
    const parsed = parseQuery(route, splitTarget(target).search, format, options.parse);
    options.knownTargets.remember(target, route, format, parsed);
    return parsed;
  }

  /** @throws {Problem} for a request that the gateway refuses */
  return function understand(arrival: Arrival, found: KnownTarget): AnyQuestion {
    const request = admit(arrival, found);
    const { target } = arrival;
    // A known target is not parsed again.
    const { query, canonicalQuery, key } =
      found.parsed[request.format] ?? parseAndRemember(target, found.route, request.format);
    arrival.record.query = canonicalQuery;
    return { request, query, canonicalQuery, key };
  };
}
