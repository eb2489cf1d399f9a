/** The gateway's understanding of a request target, without a gateway. */
import { Problem } from "../../src/errors.ts";
import { parseQuery, type ParseOptions } from "../../src/query/parse.ts";
import { createRouter, type RouteOptions } from "../../src/query/route.ts";
import { canonicalForm } from "../../src/query/write-query.ts";
import { splitTarget } from "../../src/query/wire.ts";

/** The settings' defaults, but the meanings of the tests have undocumented parameters. */
export const PARSE: ParseOptions = {
  unknown: "forward",
  allow: [],
  ignore: ["_"],
  maxLimit: 500,
  maxImageSize: { width: 140, height: 94 },
};

export const PASSES_NOTHING: RouteOptions = { recordPath: "/{resource}/{serviceId}", passThrough: [] };

export type Understanding = Partial<ParseOptions & RouteOptions>;

/** The query of a target, or its mistakes; `undefined` if there is nothing at its path. */
export function parsedTarget(target: string, options: Understanding = {}) {
  const all = { ...PARSE, ...PASSES_NOTHING, ...options };
  const { path, search } = splitTarget(target);
  const route = createRouter(all)(path);
  if (route.kind === "unknown") return undefined;
  try {
    return { query: parseQuery(route, search, "json", all).query };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { faults: error.details.errors ?? [] };
  }
}

/** The canonical text of a target, or the names of the parameters that are refused, or `nothing there`. */
export function understood(target: string, options?: Understanding): string {
  const { query, faults = [] } = parsedTarget(target, options) ?? {};
  if (query === undefined && faults.length === 0) return "nothing there";
  if (query === undefined) return `refused: ${faults.map((fault) => fault.parameter).join(", ")}`;
  return query.kind === "streamed" ? `streamed: ${query.path}` : canonicalForm(query);
}
