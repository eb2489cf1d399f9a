/**
 * Reads the list of URLs to keep warm (`warm.file`), and parses each URL like that of a caller. Reports every mistake.
 */
import type { WarmItem } from "./cache/warm.ts";
import { parseRequest } from "./http/understand.ts";
import { type GatewayRequest, NO_DIRECTIVES, OTHER_APP } from "./types.ts";
import { Problem } from "./errors.ts";
import type { ReadableSettings } from "./config/schema.ts";
import type { SettingChange } from "./config/live.ts";
import { formatDuration } from "./config/units.ts";
import { readWarmList, type WarmUrl } from "./config/warm-list.ts";
import type { ParseOptions } from "./query/parse.ts";
import { createRouter } from "./query/route.ts";
import { NOT_PARSED } from "./query/known-targets.ts";
import { splitTarget } from "./query/wire.ts";

/** The items of the list; empty if it has problems. */
export interface WarmList {
  readonly items: readonly WarmItem[];
  /** One line for each mistake. */
  readonly problems: readonly string[];
}

/** Reads the list that the settings name. Never throws. */
export type ReadWarmItems = (settings: ReadableSettings) => WarmList;

/**
 * Checks the list. If a setting that a check needs has a mistake itself, that check is skipped.
 */
export function createReadWarmItems(readFile: (path: string) => string): ReadWarmItems {
  return function readWarmItems({ warm, apps, upstream, query }) {
    if (warm?.file === undefined) return { items: [], problems: [] };
    const { urls, problems } = readWarmList(warm.file === "" ? null : warm.file, readFile);
    const known = apps?.listed?.map((app): string | undefined => app?.id);
    const isApp = (id: string): boolean =>
      id === OTHER_APP || known === undefined || known.includes(undefined) || known.includes(id);
    const understand = createUnderstandUrl(upstream, query);
    const items: WarmItem[] = [];
    const faults = [...problems];
    for (const url of urls) {
      const understood = understand(url);
      // The message omits the query, because it may contain a copied signature or key.
      if (typeof understood === "string")
        faults.push(`${url.place}: ${splitTarget(url.url).path}: ${understood}`);
      else if (!isApp(url.app)) faults.push(`${url.place}: ${url.app} is not an app in the settings`);
      else if (understood !== undefined) items.push({ question: understood, everyMs: url.everyMs });
    }
    return faults.length > 0 ? { items: [], problems: faults } : { items, problems: [] };
  };
}

/** @returns one line for each mistake in the list that the settings name */
export function checkWarmList(
  settings: ReadableSettings,
  readFile: (path: string) => string,
): readonly string[] {
  return createReadWarmItems(readFile)(settings).problems;
}

/** @returns the URLs that were added or removed, or whose interval or app has changed */
export function warmChanges(before: readonly WarmItem[], after: readonly WarmItem[]): SettingChange[] {
  const [old, now] = [describedByAnswer(before), describedByAnswer(after)];
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((answer): SettingChange[] => {
    const from = old.get(answer) ?? "nothing";
    const to = now.get(answer) ?? "nothing";
    return from === to ? [] : [{ path: `warm.${answer}`, from, to }];
  });
}

/** @returns for each answer its intervals and apps. A URL may be listed for several apps. */
function describedByAnswer(items: readonly WarmItem[]): Map<string, string> {
  const described = new Map<string, string>();
  for (const { question, everyMs } of items) {
    const { format, app } = question.request;
    const answer = `${format}:${question.canonicalQuery}`;
    const how = JSON.stringify({ every: everyMs === null ? null : formatDuration(everyMs), app });
    const others = described.get(answer);
    described.set(answer, others === undefined ? how : `${others}, ${how}`);
  }
  return described;
}

/** @returns a function that parses a URL. It returns `undefined` if the settings that it needs have mistakes. */
function createUnderstandUrl(
  { recordPath, passThrough }: NonNullable<ReadableSettings["upstream"]> = {},
  query: ReadableSettings["query"],
): (url: WarmUrl) => WarmItem["question"] | string | undefined {
  const parse = completeQuery(query);
  if (recordPath === undefined || passThrough === undefined || !parse) return () => undefined;
  const route = createRouter({ recordPath, passThrough });
  return (url) => understand(url, route, parse);
}

function completeQuery(query: ReadableSettings["query"] = {}): ParseOptions | undefined {
  const { unknown, allow, ignore, maxLimit, maxImageSize } = query;
  return unknown && allow && ignore && maxLimit && maxImageSize
    ? { unknown, allow, ignore, maxLimit, maxImageSize }
    : undefined;
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
