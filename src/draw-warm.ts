/**
 * What is kept warm, understood and wired.
 */
import { createWarm, type Warm, type WarmItem, type WarmOptions } from "./cache/warm.ts";
import { meaningOf } from "./edge/understand.ts";
import { type GatewayRequest, NO_DIRECTIVES } from "./exchange.ts";
import { Problem } from "./errors.ts";
import type { ReadableSettings } from "./platform/cross-check.ts";
import type { SettingChange } from "./platform/setting-changes.ts";
import { formatDuration } from "./platform/units.ts";
import { readWarmList, type WarmUrl } from "./platform/warm-list.ts";
import type { ParseOptions } from "./query/parse.ts";
import { createRouter } from "./query/route.ts";
import { splitTarget } from "./query/wire.ts";
import type { Surroundings } from "./surroundings.ts";

export type WarmParts = Pick<WarmOptions, "items" | "tiers" | "refresh" | "observer">;

export function drawWarm({ settings, clock, random }: Surroundings, parts: WarmParts): Warm {
  return createWarm({ ...parts, rules: () => settings.current().cache, clock, random });
}

/** What the list of URLs to keep warm asks for; nothing where there are problems. */
export interface WarmList {
  readonly items: readonly WarmItem[];
  /** A line for each mistake. */
  readonly problems: readonly string[];
}

/** Reads the list that the settings name. Never throws. */
export type ReadWarmItems = (settings: ReadableSettings) => WarmList;

/**
 * What the settings do not tell, because there is a mistake in them, is not held against the list: then it is
 * checked as far as that goes.
 */
export function createReadWarmItems(readFile: (path: string) => string): ReadWarmItems {
  return function readWarmItems({ warm, apps, upstream, query }) {
    if (warm?.file === undefined) return { items: [], problems: [] };
    const { urls, problems } = readWarmList(warm.file === "" ? null : warm.file, readFile);
    const known = apps?.map((app): string | undefined => app?.id);
    const isApp = (id: string): boolean =>
      id === "other" || known === undefined || known.includes(undefined) || known.includes(id);
    const understand = createUnderstandUrl(upstream, query);
    const items: WarmItem[] = [];
    const faults = [...problems];
    for (const url of urls) {
      const understood = understand(url);
      // Without the query: a signature or a key may have been copied into it.
      if (typeof understood === "string")
        faults.push(`${url.place}: ${splitTarget(url.url).path}: ${understood}`);
      else if (!isApp(url.app)) faults.push(`${url.place}: ${url.app} is no app of the settings`);
      else if (understood !== undefined) items.push({ question: understood, everyMs: url.everyMs });
    }
    return faults.length > 0 ? { items: [], problems: faults } : { items, problems: [] };
  };
}

/** @returns a line for each mistake in the list that the settings name */
export function checkWarmList(
  settings: ReadableSettings,
  readFile: (path: string) => string,
): readonly string[] {
  return createReadWarmItems(readFile)(settings).problems;
}

/** @returns the URLs that are new, gone, or fetched otherwise */
export function warmChanges(before: readonly WarmItem[], after: readonly WarmItem[]): SettingChange[] {
  const [old, now] = [describedByAnswer(before), describedByAnswer(after)];
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((answer): SettingChange[] => {
    const from = old.get(answer) ?? "nothing";
    const to = now.get(answer) ?? "nothing";
    return from === to ? [] : [{ path: `warm.${answer}`, from, to }];
  });
}

/** How often, and for whom, each answer is fetched: one may stand in the list for several apps. */
function describedByAnswer(items: readonly WarmItem[]): Map<string, string> {
  const described = new Map<string, string>();
  for (const { question, everyMs } of items) {
    const { format, app } = question.request;
    const answer = `${format}:${question.text}`;
    const how = JSON.stringify({ every: everyMs === null ? null : formatDuration(everyMs), app });
    const others = described.get(answer);
    described.set(answer, others === undefined ? how : `${others}, ${how}`);
  }
  return described;
}

/** @returns what understands a URL; nothing is understood where the settings that it needs were not read */
function createUnderstandUrl(
  { recordPath, passThrough }: NonNullable<ReadableSettings["upstream"]> = {},
  { unknown, ignored }: NonNullable<ReadableSettings["query"]> = {},
): (url: WarmUrl) => WarmItem["question"] | string | undefined {
  const isKnown = recordPath !== undefined && passThrough !== undefined;
  if (!isKnown || unknown === undefined || ignored === undefined) return () => undefined;
  const route = createRouter({ recordPath, passThrough });
  return (url) => understand(url, route, { unknown, ignored });
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
