/**
 * `GET /budget`: the state of the budgets. `GET /quote`: what a request would cost now.
 */
import express, { type Router } from "express";

import type { Resource } from "../interface/resources.ts";
import type { Inspect, Inspection } from "../cache/inspect.ts";
import { OTHER_APP, type PredictedWait } from "../types.ts";
import { readOnly } from "./guard.ts";
import {
  type AdminParameter,
  askedFor,
  FORMAT_PARAMETER,
  formatOf,
  optionalParameter,
  parameter,
  parametersOf,
  type Understanding,
  URL_PARAMETER,
} from "./parameters.ts";

export interface AdminBudgetOptions extends Understanding {
  /** @returns the state of the budgets, as JSON shows it */
  readonly budget: () => object;
  readonly inspect: Inspect;
  /** Predicts the wait of an app's request for a resource, without spending anything. */
  readonly expect: (app: string, resource: Resource) => PredictedWait;
  /** The ids of the registered apps. All other apps count as `other`. */
  readonly apps: () => ReadonlySet<string>;
}

export const QUOTE_PARAMETERS: readonly AdminParameter[] = [
  URL_PARAMETER,
  { name: "app", meaning: "The app that would ask; other where it is not listed", example: "web" },
  FORMAT_PARAMETER,
];

export function createAdminBudget(options: AdminBudgetOptions): Router {
  const router = express.Router();
  router
    .route("/budget")
    .get((_request, response) => void response.json(options.budget()))
    .all(readOnly);
  router
    .route("/quote")
    .get(async (request, response) => {
      parametersOf(request, QUOTE_PARAMETERS);
      const format = formatOf(request);
      const asked = askedFor(parameter(request, "url"), format, options);
      const { query, key } = await options.pages.sourceOf(asked, format);
      const named = optionalParameter(request, "app");
      const app = named !== undefined && options.apps().has(named) ? named : OTHER_APP;
      const inspection = await options.inspect(query, key);
      const expectation = options.expect(app, query.resource);
      response.json({ query: asked.canonicalQuery, app, ...quoteOf(inspection, expectation) });
    })
    .all(readOnly);
  return router;
}

function quoteOf(
  { next, why, entry }: Inspection,
  { waitMs, why: waitsFor, refusal }: PredictedWait,
): object {
  const cached = { cached: next !== "fetch", why, ageSeconds: entry?.ageSeconds ?? null };
  if (next === "hit") return { ...cached, upstreamCalls: 0, predictedWaitMs: 0, refusal: null };
  // Nobody waits for the background refresh.
  if (next === "update") return { ...cached, upstreamCalls: 1, predictedWaitMs: 0, refusal: null };
  return {
    ...cached,
    upstreamCalls: refusal === undefined ? 1 : 0,
    predictedWaitMs: Math.round(waitMs),
    waitsFor: waitMs > 0 ? waitsFor : null,
    refusal: refusal ?? null,
  };
}
