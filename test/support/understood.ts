/** The gateway's understanding of a request target, without a gateway. */
import { parseQuery, type Parsed, type ParseOptions } from "../../src/query/parse.ts";
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

/** What a target is parsed to; `undefined` where there is nothing at its path. */
export function parsedTarget(target: string, options: Understanding = {}): Parsed | undefined {
  const all = { ...PARSE, ...PASSES_NOTHING, ...options };
  const { path, search } = splitTarget(target);
  const route = createRouter(all)(path);
  return route.kind === "unknown" ? undefined : parseQuery(route, search, all);
}

/** The canonical text of a target, or the names of the parameters that are refused, or `nothing there`. */
export function understood(target: string, options?: Understanding): string {
  const parsed = parsedTarget(target, options);
  if (parsed === undefined) return "nothing there";
  if (!parsed.ok) return `refused: ${parsed.faults.map((fault) => fault.parameter).join(", ")}`;
  return parsed.query.kind === "streamed" ? `streamed: ${parsed.query.path}` : canonicalForm(parsed.query);
}
