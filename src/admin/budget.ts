/**
 * `GET /budget`: the state of the budgets. `/budget/replicas`: the replicas that hold a slot of the API's budget.
 * `GET /quote`: what a request would cost now.
 */
import express, { type Router } from "express";

import type { Resource } from "../interface/resources.ts";
import type { Inspect, Inspection } from "../cache/inspect.ts";
import { OTHER_APP, type PredictedWait } from "../types.ts";
import type { Apps } from "../ratelimit/apps.ts";
import { getAndPost, readOnly } from "./guard.ts";
import {
  type AdminParameter,
  askedFor,
  FORMAT_PARAMETER,
  formatOf,
  mistake,
  optionalParameter,
  parameter,
  parametersOf,
  refuseUnknownMembers,
  type Understanding,
  URL_PARAMETER,
} from "./parameters.ts";

export interface AdminBudgetOptions extends Understanding {
  /** @returns the state of the budgets, as JSON values */
  readonly budget: () => object;
  readonly inspect: Inspect;
  /** Predicts how long an app's request for a resource would wait. Spends nothing. */
  readonly expect: (app: string, resource: Resource) => PredictedWait;
  readonly apps: Pick<Apps, "isListed" | "isKnown">;
  /**
   * The replicas that hold a slot of the API's budget; none without Redis. Rejects if Redis does not answer.
   * @param dead the name or the slot of a replica whose process has ended, as the operator reports; its slot is freed
   */
  readonly replicas: (dead?: string) => Promise<readonly object[]>;
}

export const QUOTE_PARAMETERS: readonly AdminParameter[] = [
  URL_PARAMETER,
  {
    name: "app",
    meaning: "The app of the request. Any name is allowed; the answer says whether it is listed",
    example: "web",
  },
  FORMAT_PARAMETER,
];

export function createAdminBudget(options: AdminBudgetOptions): Router {
  const router = express.Router();
  router
    .route("/budget")
    .get((_request, response) => void response.json(options.budget()))
    .all(readOnly);
  router
    .route("/budget/replicas")
    .get(async (_request, response) => void response.json({ replicas: await options.replicas() }))
    .post(express.json({ limit: "1kb", type: () => true }), async (request, response) => {
      response.json({ replicas: await options.replicas(deadIn(request.body)) });
    })
    .all(getAndPost);
  router
    .route("/quote")
    .get(async (request, response) => {
      parametersOf(request, QUOTE_PARAMETERS);
      const format = formatOf(request);
      const asked = askedFor(parameter(request, "url"), format, options);
      const { query, key } = await options.pages.sourceOf(asked, format);
      const named = optionalParameter(request, "app");
      const app = named ?? OTHER_APP;
      const inspection = await options.inspect(query, key);
      const expectation = options.expect(app, query.resource);
      const appIs = options.apps.isListed(app)
        ? "listed"
        : options.apps.isKnown(app)
          ? "not listed"
          : "never seen";
      response.json({
        query: asked.canonicalQuery,
        app,
        appIs,
        ...quoteOf(inspection, expectation),
      });
    })
    .all(readOnly);
  return router;
}

/** @throws {Problem} `invalid-admin-request` */
function deadIn(body: unknown): string {
  const dead: unknown = typeof body === "object" && body !== null ? Reflect.get(body, "dead") : undefined;
  refuseUnknownMembers(body, ["dead"]);
  if (typeof dead !== "string" || dead === "") {
    throw mistake('Send JSON with "dead": the name or the slot of a replica whose process has ended.');
  }
  return dead;
}

function quoteOf(
  { next, why, entry }: Inspection,
  { waitMs, why: waitsFor, refusal }: PredictedWait,
): object {
  const cached = { cached: next !== "fetch", why, ageSeconds: entry?.ageSeconds ?? null };
  if (next === "hit") return { ...cached, upstreamCalls: 0, predictedWaitMs: 0, refusal: null };
  // The caller gets the stale answer and does not wait for the refresh.
  if (next === "update") return { ...cached, upstreamCalls: 1, predictedWaitMs: 0, refusal: null };
  return {
    ...cached,
    upstreamCalls: refusal === undefined ? 1 : 0,
    predictedWaitMs: Math.round(waitMs),
    waitsFor: waitMs > 0 ? waitsFor : null,
    refusal: refusal ?? null,
  };
}
