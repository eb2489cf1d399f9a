/**
 * understand: turns the query string into the canonical query and its cache key, or reports every mistake in it.
 */
import { type GatewayRequest, parseRequest, type Question } from "../query/question.ts";
import type { ParseOptions } from "../query/parse.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import type { KnownTargets, ParsedQuery } from "../query/known-targets.ts";

export type Understand = (request: GatewayRequest) => Question<Query | StreamedQuery>;

/** @returns the stage. It throws `invalid-query` with every mistake. It does not parse a known target again. */
export function createUnderstand(options: ParseOptions, remember: KnownTargets["remember"]): Understand {
  function parseAndRemember(request: GatewayRequest): ParsedQuery {
    const parsed = parseRequest(request, options);
    remember(request.target, request, request.format, parsed);
    return parsed;
  }
  return (request) => {
    const { query, canonicalQuery, key } = request.parsed[request.format] ?? parseAndRemember(request);
    return { request, query, canonicalQuery, key };
  };
}
