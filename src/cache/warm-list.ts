/**
 * Parses each URL of the warm list (`warm`) like that of a caller. Reports every mistake.
 */
import type { WarmItem } from "./warm.ts";
import type { Settings } from "../config/schema.ts";
import type { WarmUrl } from "../config/schema/cache.ts";
import { Problem } from "../errors.ts";
import { NOT_PARSED } from "../query/known-targets.ts";
import type { ParseOptions } from "../query/parse.ts";
import { createRouter } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import { type GatewayRequest, NO_DIRECTIVES, parseRequest } from "../query/question.ts";
import { OTHER_APP } from "../telemetry/events.ts";

/** The items of the list; empty if it has problems. */
export interface WarmList {
  readonly items: readonly WarmItem[];
  /** One line for each mistake. */
  readonly problems: readonly string[];
}

/** Reads the list in valid settings. */
export function readWarmItems({ warm, apps, upstream, query }: Settings): WarmList {
  const route = createRouter(upstream);
  const known = new Set([OTHER_APP, ...apps.listed.map(({ id }) => id)]);
  const items: WarmItem[] = [];
  const problems: string[] = [];
  for (const [index, url] of warm.entries()) {
    const question = understand(url, route, query);
    // The message omits the query, because it may contain a copied signature or key.
    const place = `warm[${index}]: ${splitTarget(url.url).path}`;
    if (typeof question === "string") problems.push(`${place}: ${question}`);
    else if (!known.has(url.app)) problems.push(`${place}: ${url.app} is not an app in the settings`);
    else items.push({ question, everyMs: url.everyMs });
  }
  return problems.length > 0 ? { items: [], problems } : { items, problems };
}

/** @returns the question for a URL, or why the URL has none */
function understand(
  { url, app, format }: WarmUrl,
  route: ReturnType<typeof createRouter>,
  parse: ParseOptions,
): WarmItem["question"] | string {
  const { path, search } = splitTarget(url);
  const to = route(path);
  if (to.kind === "unknown" || to.kind === "streamed") return "answers of this URL are never cached";
  const request: GatewayRequest = {
    id: "warm",
    method: "GET",
    app,
    priority: "prefetch",
    mayForceRefresh: false,
    route: to,
    target: url,
    parsed: NOT_PARSED,
    search,
    format: to.kind === "image" ? "jpeg" : format,
    coding: "identity",
    ifNoneMatch: undefined,
    ifModifiedSince: undefined,
    directives: NO_DIRECTIVES,
    receivedAt: 0,
    deadlineAt: Number.POSITIVE_INFINITY,
    // No caller can hang up.
    gone: () => new AbortController().signal,
  };
  try {
    const { query, canonicalQuery, key } = parseRequest(request, parse);
    return query.kind === "streamed"
      ? "answers of this URL are never cached"
      : { request, query, canonicalQuery, key };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { errors = [] } = error.details;
    return errors.map(({ parameter, expected }) => `${parameter}: expected ${expected}`).join("; ");
  }
}
