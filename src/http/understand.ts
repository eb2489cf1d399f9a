/**
 * understand: turns the query string into the canonical query and its cache key, or reports every mistake in it.
 */
import { MOST_ERRORS, Problem } from "../errors.ts";
import type { GatewayRequest, Question } from "../query/question.ts";
import { cacheKey } from "../query/key.ts";
import { parseQuery, type ParseOptions } from "../query/parse.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import { canonicalForm } from "../query/canonical.ts";
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

/** @throws {Problem} `invalid-query` with every mistake */
export function parseRequest(
  { route, search, format }: Pick<GatewayRequest, "route" | "search" | "format">,
  options: ParseOptions,
): ParsedQuery {
  const parsed = parseQuery(route, search, options);
  if (!parsed.ok) {
    throw new Problem("invalid-query", { detail: countInWords(parsed.faults.length), errors: parsed.faults });
  }
  const { query } = parsed;
  const canonicalQuery = query.kind === "streamed" ? query.path : canonicalForm(query);
  return { query, canonicalQuery, key: cacheKey(format, canonicalQuery) };
}

function countInWords(count: number): string {
  if (count === 1) return "One parameter does not have its documented form.";
  const rest = count > MOST_ERRORS ? `; the first ${MOST_ERRORS} are listed` : "";
  return `${count} parameters do not have their documented form${rest}.`;
}
