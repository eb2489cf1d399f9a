/** The gateway's understanding of a request target, without a gateway. */
import { Problem, type ProblemDetails } from "../../src/errors.ts";
import { parseQuery, type ParseOptions } from "../../src/query/parse.ts";
import type { AnyQuery } from "../../src/query/query.ts";
import { createRouter, type RouteOptions } from "../../src/query/route.ts";
import { canonicalForm } from "../../src/query/canonical.ts";
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

type Parsed =
  | { readonly ok: true; readonly query: AnyQuery }
  | { readonly ok: false; readonly faults: NonNullable<ProblemDetails["errors"]> };

/** What a target is parsed to; `undefined` where there is nothing at its path. */
export function parsedTarget(target: string, options: Understanding = {}): Parsed | undefined {
  const all = { ...PARSE, ...PASSES_NOTHING, ...options };
  const { path, search } = splitTarget(target);
  const route = createRouter(all)(path);
  if (route.kind === "unknown") return undefined;
  try {
    return { ok: true, query: parseQuery(route, search, "json", all).query };
  } catch (error) {
    if (error instanceof Problem) return { ok: false, faults: error.details.errors ?? [] };
    throw error;
  }
}

/** The canonical text of a target, or the names of the parameters that are refused, or `nothing there`. */
export function understood(target: string, options?: Understanding): string {
  const parsed = parsedTarget(target, options);
  if (parsed === undefined) return "nothing there";
  if (!parsed.ok) return `refused: ${parsed.faults.map((fault) => fault.parameter).join(", ")}`;
  return parsed.query.kind === "streamed" ? `streamed: ${parsed.query.path}` : canonicalForm(parsed.query);
}
