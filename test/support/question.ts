import { type GatewayRequest, NO_DIRECTIVES, type Question } from "../../src/query/request.ts";
import type { Query } from "../../src/query/query.ts";
import { keyOf } from "./entries.ts";

/** A search among listings that names nothing. */
export const SEARCH = {
  kind: "search",
  resource: "listings",
  filters: [],
  extras: [],
  limit: undefined,
  offset: 0,
} as const satisfies Query;

/** A caller's request for listings that arrived at an instant and waits ten seconds. */
export function requestWith(receivedAt: number, changes: Partial<GatewayRequest> = {}): GatewayRequest {
  return {
    id: "request-1",
    method: "GET",
    app: "other",
    priority: "interactive",
    mayForceRefresh: false,
    format: "json",
    coding: "identity",
    ifNoneMatch: undefined,
    ifModifiedSince: undefined,
    directives: NO_DIRECTIVES,
    receivedAt,
    deadlineAt: receivedAt + 10_000,
    gone: () => new AbortController().signal,
    ...changes,
  };
}

/** A question for listings, identified by its canonical query. */
export function questionWith(request: GatewayRequest, canonicalQuery = "listings?offset=0"): Question {
  return { canonicalQuery, key: keyOf(canonicalQuery), query: SEARCH, request };
}
