/**
 * What is kept warm, understood and wired.
 */
import { createWarm, type Warm, type WarmItem, type WarmOptions } from "./cache/warm.ts";
import { meaningOf } from "./edge/understand.ts";
import { type GatewayRequest, NO_DIRECTIVES } from "./exchange.ts";
import { Problem } from "./errors.ts";
import { type Config, ConfigError } from "./platform/config.ts";
import { readWarmList, type WarmUrl } from "./platform/warm-list.ts";
import type { ParseOptions } from "./query/parse.ts";
import { createRouter } from "./query/route.ts";
import { splitTarget } from "./query/wire.ts";
import type { Surroundings } from "./surroundings.ts";

export interface WarmParts extends Pick<WarmOptions, "tiers" | "refresh" | "observer"> {
  readonly parse: ParseOptions;
}

/** @throws {ConfigError} with every mistake in the list */
export function drawWarm(
  { config, settings, clock, random }: Surroundings,
  readFile: (path: string) => string,
  { parse, ...parts }: WarmParts,
): Warm {
  const items = warmItems(config, readFile, parse);
  return createWarm({ ...parts, items, rules: () => settings.current().cache, clock, random });
}

/**
 * @returns what the list of URLs to keep warm asks for
 * @throws {ConfigError} with every mistake in the list
 */
export function warmItems(
  config: Config,
  readFile: (path: string) => string,
  parse: ParseOptions,
): WarmItem[] {
  const { urls, problems } = readWarmList(config.warm.file, readFile);
  const route = createRouter(config.upstream);
  const apps = new Set(["other", ...config.apps.map(({ id }) => id)]);
  const items: WarmItem[] = [];
  const faults = [...problems];
  for (const url of urls) {
    const understood = understand(url, route, parse);
    // Without the query: a signature or a key may have been copied into it.
    if (typeof understood === "string")
      faults.push(`${url.place}: ${splitTarget(url.url).path}: ${understood}`);
    else if (!apps.has(url.app)) faults.push(`${url.place}: ${url.app} is no app of the settings`);
    else items.push({ question: understood, everyMs: url.everyMs });
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return items;
}

/** @returns the question that a URL puts, or why it puts none */
function understand(
  { url, app, format }: WarmUrl,
  route: ReturnType<typeof createRouter>,
  parse: ParseOptions,
): WarmItem["question"] | string {
  const { path, search } = splitTarget(url);
  const to = route(path);
  if (to.kind === "unknown" || to.kind === "streamed") return "nothing at this URL is ever kept";
  const request: GatewayRequest = {
    id: "warm",
    method: "GET",
    app,
    priority: "prefetch",
    mayForceRefresh: false,
    route: to,
    search,
    format: to.kind === "image" ? "jpeg" : format,
    coding: "identity",
    ifNoneMatch: undefined,
    ifModifiedSince: undefined,
    directives: NO_DIRECTIVES,
    receivedAt: 0,
    deadlineAt: Number.POSITIVE_INFINITY,
    // Nobody hangs up.
    gone: new AbortController().signal,
  };
  try {
    const { query, text, key } = meaningOf(request, parse);
    return query.kind === "streamed" ? "nothing at this URL is ever kept" : { request, query, text, key };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const { errors = [] } = error.details;
    return errors.map(({ parameter, expected }) => `${parameter}: expected ${expected}`).join("; ");
  }
}
