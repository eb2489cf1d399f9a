/** Reads the list of answers to keep warm from the settings. */
import type { Settings } from "../config/settings.ts";
import { Problem } from "../errors.ts";
import { cacheableQueryAt } from "../query/parse.ts";
import { NO_DIRECTIVES, type Question } from "../query/request.ts";
import { createRouter } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import { OTHER_APP } from "../telemetry/events.ts";

/** An answer that is kept warm. */
export interface WarmItem {
  readonly question: Question;
  /** How often it is fetched, in milliseconds; `null`: shortly before it expires. */
  readonly everyMs: number | null;
}

/**
 * Reads the warm list (`warm`) in valid settings. Parses each URL like that of a caller.
 * @returns its items, none if it has mistakes, and one line for each mistake
 */
export function readWarmItems({ warm, apps, upstream, query }: Settings): {
  items: readonly WarmItem[];
  problems: readonly string[];
} {
  const route = createRouter(upstream);
  const known = new Set([OTHER_APP, ...apps.listed.map(({ id }) => id)]);
  const items: WarmItem[] = [];
  const problems: string[] = [];
  for (const [index, { url, app, format: wanted, everyMs }] of warm.entries()) {
    // The message omits the query, because it may contain a copied signature or key.
    const refuse = (why: string): unknown =>
      problems.push(`warm[${index}]: ${splitTarget(url).path}: ${why}`);
    try {
      const found = cacheableQueryAt(url, wanted, route, query);
      if (found === undefined) refuse("the path of this URL is unknown, or answers at it are never cached");
      else if (!known.has(app)) refuse(`${app} is not an app in the settings`);
      else {
        const { format, ...asked } = found;
        items.push({ question: { ...asked, request: { ...REQUEST, format, app } }, everyMs });
      }
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { errors = [] } = error.details;
      refuse(errors.map(({ parameter, expected }) => `${parameter}: expected ${expected}`).join("; "));
    }
  }
  return problems.length > 0 ? { items: [], problems } : { items, problems };
}

/** What the requests for all items have in common. */
const REQUEST = {
  id: "warm",
  method: "GET",
  priority: "prefetch",
  mayForceRefresh: false,
  coding: "identity",
  ifNoneMatch: undefined,
  ifModifiedSince: undefined,
  directives: NO_DIRECTIVES,
  receivedAt: 0,
  deadlineAt: Number.POSITIVE_INFINITY,
  // No caller can hang up.
  gone: () => new AbortController().signal,
} as const;
