/** `GET /cache/entry`, `/cache/history` and `/quote`: what the gateway knows about a URL, and what a request costs. */
import { z } from "zod";

import type { Inspect, Inspection } from "../cache/inspect.ts";
import type { Resource } from "../interface/resources.ts";
import type { Apps } from "../ratelimit/apps.ts";
import { OTHER_APP } from "../telemetry/events.ts";
import type { PredictedWait } from "../ratelimit/overview.ts";
import { ABOUT_URL, askedFor, type Understanding } from "./caller-url.ts";
import { type Endpoint, get } from "./endpoint.ts";
import type { Recorder } from "./status/recorder.ts";
import { inWords, waitText } from "./words.ts";

export interface ExplainOptions extends Understanding {
  readonly inspect: Inspect;
  /** Predicts how long an app's request for a resource would wait. Spends nothing. */
  readonly expect: (app: string, resource: Resource) => PredictedWait;
  readonly apps: Pick<Apps, "isListed" | "isKnown">;
  readonly historyOf: Recorder["historyOf"];
}

export function explainEndpoints(options: ExplainOptions): Endpoint[] {
  const { pages, inspect, expect, apps, historyOf } = options;
  return [
    get("/cache/entry", ABOUT_URL, async (about) => {
      const asked = askedFor(about, options);
      const source = await pages.sourceOf(asked, about.format ?? "json");
      const inspection = await inspect(source.query, source.key);
      return {
        query: asked.canonicalQuery,
        ...(source.key !== asked.key && { cutFrom: source.canonicalQuery }),
        says: cachedText(inspection),
        ...inspection,
      };
    }),
    get("/cache/history", ABOUT_URL, (about) => {
      const { canonicalQuery } = askedFor(about, options);
      const requests = historyOf(canonicalQuery);
      const says = "This process remembers no request for this URL that was not a hit.";
      return { query: canonicalQuery, requests, ...(requests.length === 0 && { says }) };
    }),
    get("/quote", { ...ABOUT_URL, app: z.string().optional() }, async (about) => {
      const asked = askedFor(about, options);
      const { query, key } = await pages.sourceOf(asked, about.format ?? "json");
      const app = about.app || OTHER_APP;
      const appIs = apps.isListed(app) ? "listed" : apps.isKnown(app) ? "not listed" : "never seen";
      const inspection = await inspect(query, key);
      const cost = costOf(inspection, expect(app, query.resource));
      const says = costText(inspection, cost, `the app ${app} (${appIs})`);
      return { query: asked.canonicalQuery, app, appIs, says, ...cost };
    }),
  ];
}

interface Cost {
  readonly cached: boolean;
  readonly why: string;
  readonly ageSeconds: number | null;
  readonly upstreamCalls: number;
  readonly predictedWaitMs: number;
  readonly waitsFor: string | null;
  readonly refusal: string | null;
}

function costOf({ next, why, entry }: Inspection, wait: PredictedWait): Cost {
  const known = { cached: next !== "fetch", why, ageSeconds: entry?.ageSeconds ?? null };
  if (next !== "fetch") {
    // The caller gets a stale answer at once, and does not wait for the refresh.
    const upstreamCalls = next === "hit" ? 0 : 1;
    return { ...known, upstreamCalls, predictedWaitMs: 0, waitsFor: null, refusal: null };
  }
  return {
    ...known,
    upstreamCalls: wait.refusal === undefined ? 1 : 0,
    predictedWaitMs: Math.round(wait.waitMs),
    waitsFor: wait.waitMs > 0 ? wait.why : null,
    refusal: wait.refusal ?? null,
  };
}

function cachedText({ entry, why, failure }: Inspection): string {
  const failed = failure === undefined ? "" : ` The latest call failed: ${failure}.`;
  if (entry === null) return `Not cached (${why}).${failed}`;
  const { tier, status, ageSeconds, freshForSeconds, bodyBytes } = entry;
  const left =
    freshForSeconds > 0
      ? `fresh for ${inWords(freshForSeconds * 1_000)}`
      : `expired ${inWords(-freshForSeconds * 1_000)} ago`;
  const state = why === "purged" ? "purged" : left;
  const age = ageSeconds < 1 ? "less than a second" : inWords(ageSeconds * 1_000);
  return `Cached in ${tier}, ${age} old, ${state}. Status ${status}, ${bodyBytes.toLocaleString("en")} bytes.${lifetimeText(entry.learned)}${failed}`;
}

function lifetimeText(learned: NonNullable<Inspection["entry"]>["learned"]): string {
  if (learned === null) return "";
  const { changesEverySeconds, requestsPerHour, lifetimeSeconds, why } = learned;
  return (
    ` It changes about every ${inWords(changesEverySeconds * 1_000)} and is asked for about ` +
    `${requestsPerHour.toLocaleString("en")} times an hour. Its lifetime is ${inWords(lifetimeSeconds * 1_000)}: ${WHY[why]}.`
  );
}

const WHY = {
  fixed: "cache.lifetimes is fixed",
  longest: "the longest possible, because a call saves few out-of-date answers",
  price: "after this time, a call saves as many out-of-date answers as any other call",
  shortest: "the shortest possible, because a call saves many out-of-date answers",
  limited: "the API's Cache-Control or another setting forbids a longer lifetime",
};

const NEXT = {
  hit: "is answered from the cache",
  update: "gets the stale answer, which is refreshed in the background",
  fetch: "is fetched from the property API",
};

function costText({ next }: Inspection, cost: Cost, forApp: string): string {
  const { upstreamCalls, predictedWaitMs, waitsFor, refusal } = cost;
  const wait = `${inWords(predictedWaitMs)} for ${waitText(waitsFor)}`;
  if (refusal !== null) return `A request of ${forApp} is refused: ${refusal}. A call would wait ${wait}.`;
  const calls =
    upstreamCalls === 0
      ? "no call"
      : predictedWaitMs === 0
        ? "one call, which is sent at once"
        : `one call, which waits ${wait}`;
  return `A request of ${forApp} ${NEXT[next]}. It costs ${calls}.`;
}
