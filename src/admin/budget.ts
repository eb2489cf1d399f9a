/**
 * The operators' view of the budget: how it stands, and what a request would cost now.
 */
import express, { type Router } from "express";

import type { Resource } from "../interface/resources.ts";
import type { Inspect, Inspection } from "../cache/inspect.ts";
import { OTHER_APP } from "../types.ts";
import { readOnly } from "./methods.ts";
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

/** How long a request would wait for a permit. Nothing is spent to find out. */
export interface Expectation {
  readonly waitMs: number;
  /** The reason for the wait. */
  readonly why: string;
  /** The code of the problem with which it would be refused; `undefined`: it would not. */
  readonly refusal: string | undefined;
}

export interface AdminBudgetOptions extends Understanding {
  /** How the budgets stand. */
  readonly budget: () => object;
  readonly inspect: Inspect;
  /** What an app's request for a resource would wait; nothing is spent. */
  readonly expect: (app: string, resource: Resource) => Expectation;
  /** Ids of the registered apps; a request of any other is of `other`. */
  readonly apps: () => ReadonlySet<string>;
}

export const QUOTE_PARAMETERS: readonly AdminParameter[] = [
  URL_PARAMETER,
  { name: "app", meaning: "The app that would ask; other where it is not listed", example: "web" },
  FORMAT_PARAMETER,
];

/** @returns `GET /budget` and `GET /quote` */
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
      const { text, key, query } = askedFor(parameter(request, "url"), formatOf(request), options);
      const named = optionalParameter(request, "app");
      const app = named !== undefined && options.apps().has(named) ? named : OTHER_APP;
      const inspection = await options.inspect(query, key);
      response.json({ query: text, app, ...quoteOf(inspection, options.expect(app, query.resource)) });
    })
    .all(readOnly);
  return router;
}

function quoteOf({ next, why, entry }: Inspection, { waitMs, why: waitsFor, refusal }: Expectation): object {
  const cached = { cached: next !== "fetch", why, ageSeconds: entry?.ageSeconds ?? null };
  if (next === "hit") return { ...cached, upstreamCalls: 0, predictedWaitMs: 0, refusal: null };
  // Nobody waits for the refresh, which is made if there is a place for it.
  if (next === "update") return { ...cached, upstreamCalls: 1, predictedWaitMs: 0, refusal: null };
  return {
    ...cached,
    upstreamCalls: refusal === undefined ? 1 : 0,
    predictedWaitMs: Math.round(waitMs),
    waitsFor: waitMs > 0 ? waitsFor : null,
    refusal: refusal ?? null,
  };
}
