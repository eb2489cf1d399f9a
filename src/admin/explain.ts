/** `GET /cache/entry`, `/cache/history` and `/quote`: what the gateway knows about a URL, and what a request costs. */
import { z } from "zod";

import type { Inspect, Inspection } from "../cache/inspect.ts";
import type { LearnedAbout } from "../cache/lifetimes/learned-lifetimes.ts";
import type { Pages } from "../pages/pages.ts";
import { cacheableQueryAt, type ParseOptions } from "../query/parse.ts";
import type { ParsedQuery } from "../query/query.ts";
import { recordPathOf, type Route } from "../query/route.ts";
import { type Apps, namedIn } from "../ratelimit/apps.ts";
import type { Budgets } from "../ratelimit/budgets.ts";
import { type Endpoint, get, mistake } from "./endpoint.ts";
import { count, duration, rate } from "./page/format.js";
import type { Miss, Recorder } from "./status/recorder.ts";

/** What is needed to interpret a URL of the callers' port. */
export interface Understanding {
  readonly route: (path: string) => Route;
  /** `upstream.recordPath` */
  readonly recordPath: string;
  readonly parse: ParseOptions;
  /** Finds the blocks that an answer is cut from. */
  readonly pages: Pick<Pages, "sourceOf" | "blockKeysOf">;
}

/** The parameters of an endpoint about a URL. v2: the answer frozen to version 2, which is cached separately. */
export const ABOUT_URL = {
  url: z.string().min(1, "must not be empty"),
  format: z.enum(["json", "v2"]).default("json"),
};

/** @throws {Problem} `invalid-query` if the URL has a mistake, `invalid-admin-request` if its answers are never cached */
export function askedFor(url: string, format: "json" | "v2", options: Understanding): ParsedQuery {
  // The log and the status page show queries. A query of a thumbnail or a record may differ from its path.
  const path = url
    .replace(/^\/?images\/([^?]+)/, "/cache/primary_$1.jpg")
    .replace(/^\/?(listings|sold)\/(\d+)(?=\?|$)/, recordPathOf(options.recordPath, "$1", "$2"));
  const found = cacheableQueryAt(path, format, options.route, options.parse);
  if (found !== undefined) return found;
  throw mistake("The path of this URL is unknown, or answers at it are never cached.");
}

export interface ExplainOptions extends Understanding {
  readonly inspect: Inspect;
  readonly budgets: Pick<Budgets, "expect">;
  readonly apps: Pick<Apps, "isListed" | "isKnown">;
  readonly recorder: Pick<Recorder, "missesOf">;
}

export function explainEndpoints(options: ExplainOptions): Endpoint[] {
  const { pages, inspect, budgets, apps, recorder } = options;
  return [
    get("/cache/entry", ABOUT_URL, async ({ url, format }) => {
      const asked = askedFor(url, format, options);
      const source = await pages.sourceOf(asked, format);
      const inspection = await inspect(source.query, source.key);
      return {
        query: asked.canonicalQuery,
        ...(source.key !== asked.key && { cutFrom: source.canonicalQuery }),
        says: cachedText(inspection),
        ...inspection,
      };
    }),
    get("/cache/history", ABOUT_URL, ({ url, format }) => {
      const { canonicalQuery } = askedFor(url, format, options);
      const requests = recorder.missesOf(canonicalQuery).map((miss) => {
        const { at, app, outcome, status, durationMs } = miss;
        return { at, app, outcome, status, durationMs, why: whyNoHit(miss) };
      });
      const says = "This process remembers no request for this URL that was not a hit.";
      return { query: canonicalQuery, requests, ...(requests.length === 0 && { says }) };
    }),
    get("/quote", { ...ABOUT_URL, app: z.string().default("") }, async ({ url, format, app: named }) => {
      const asked = askedFor(url, format, options);
      const { query, key } = await pages.sourceOf(asked, format);
      const app = namedIn(named);
      const appIs = apps.isListed(app) ? "listed" : apps.isKnown(app) ? "not listed" : "never seen";
      const expected = budgets.expect(app, query.resource);
      const inspection = await inspect(query, key, expected.refusal);
      const cost = costOf(inspection, expected);
      const says = `A request of the app ${app} (${appIs}) ${costText(inspection.next, cost)}`;
      return { query: asked.canonicalQuery, app, appIs, says, ...cost };
    }),
  ];
}

/** Only a request that must be fetched waits or is refused. A stale answer is served at once, also in place of a refusal. */
function costOf(
  { next, why, entry }: Inspection,
  { forMs, why: waitsFor, refusal }: ReturnType<Budgets["expect"]>,
) {
  const isFetched = next === "fetch";
  return {
    cached: !isFetched,
    why,
    ageSeconds: entry?.ageSeconds ?? null,
    upstreamCalls: next === "hit" || refusal ? 0 : 1,
    predictedWaitMs: isFetched ? Math.round(forMs) : 0,
    waitsFor: isFetched && forMs > 0 ? waitsFor : null,
    refusal: (isFetched && refusal?.code) || null,
  };
}

const NEXT = {
  hit: "is answered from the cache",
  update: "gets the stale answer, which is refreshed in the background",
  fetch: "is fetched from the property API",
};

function costText(next: Inspection["next"], cost: ReturnType<typeof costOf>): string {
  const { upstreamCalls, predictedWaitMs, waitsFor, refusal } = cost;
  if (refusal !== null) return `is refused: ${refusal}.`;
  const wait = predictedWaitMs > 0 ? `, which waits ${duration(predictedWaitMs)} (${waitsFor})` : "";
  return `${NEXT[next]}. It costs ${upstreamCalls === 0 ? "no" : "one"} call${wait}.`;
}

function cachedText({ entry, why, failure }: Inspection): string {
  const failed = failure === undefined ? "" : ` The latest call failed: ${failure}.`;
  if (entry === null) return `Not cached (${why}).${failed}`;
  const { tier, status, ageSeconds, freshForSeconds, bodyBytes, learned } = entry;
  const about = (seconds: number): string => (seconds < 1 ? "less than a second" : duration(seconds * 1_000));
  const left = about(Math.abs(freshForSeconds));
  const freshness = why === "fresh" ? `fresh for ${left}` : `expired ${left} ago`;
  const state = why === "purged" ? why : freshness;
  const what = `Cached in ${tier}, ${about(ageSeconds)} old, ${state}. Status ${status}, ${count(bodyBytes)} bytes.`;
  return `${what}${learned === null ? "" : lifetimeText(learned)}${failed}`;
}

function lifetimeText({ changesEverySeconds, requestsPerHour, lifetimeSeconds, why }: LearnedAbout): string {
  return (
    ` It changes about every ${duration(changesEverySeconds * 1_000)} and is asked for about ` +
    `${rate(requestsPerHour)} times an hour. Its lifetime is ${duration(lifetimeSeconds * 1_000)}: ${WHY[why]}.`
  );
}

const WHY = {
  fixed: "cache.lifetimes is fixed",
  longest: "the longest possible, because a call saves few out-of-date answers",
  price: "after this time, a call saves as many out-of-date answers as any other call",
  shortest: "the shortest possible, because a call saves many out-of-date answers",
  limited: "the API's Cache-Control or another setting forbids a longer lifetime",
};

/** Why the API was asked, or what a request got without a call. */
const NO_HIT: Readonly<Record<string, string>> = {
  miss: "Nothing usable was cached",
  stale: "The cached answer had expired, or was purged",
  updating: "The cached answer had expired. It was served, and refreshed in the background",
  request: "The caller asked for a newer answer (Cache-Control)",
  bypass: "It was passed through: the caller sent no-store, or answers at this path are not cached",
};

/** @returns why a request was not a hit, with the code of its problem, or why its answer is stale or was not stored */
function whyNoHit({ outcome, forwarded, detail, problem }: Miss): string {
  const code = problem ?? detail;
  const why = NO_HIT[forwarded ?? outcome] ?? `It ended as ${outcome}`;
  return `${why}${code === undefined ? "" : ` (${code})`}.`;
}
