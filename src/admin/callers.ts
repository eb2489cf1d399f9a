/** `GET /callers`: how the apps identify themselves, and how old the answers were that they got from the cache. */
import express, { type Router } from "express";

import { readOnly } from "./guard.ts";
import { type AdminParameter, INSTANT_FORMS, parametersOf, periodIn } from "./parameters.ts";
import type { CallersSeen } from "./status/callers-seen.ts";

export interface AdminCallersOptions {
  readonly callersSeen: (from: number, to: number) => Promise<CallersSeen>;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export const PERIOD_PARAMETERS: readonly AdminParameter[] = [
  {
    name: "from",
    meaning: `Begin of the period: ${INSTANT_FORMS}; a day before its end where absent`,
    example: "-7d",
  },
  { name: "to", meaning: "End of the period, which is not in it; now where absent", example: "-1h" },
];

export function createAdminCallers({ callersSeen, now }: AdminCallersOptions): Router {
  const router = express.Router();
  router
    .route("/callers")
    .get(async (request, response) => {
      const { from, to } = periodIn(parametersOf(request, PERIOD_PARAMETERS), now());
      const { scope, processes, since, completeSince, ages, apps } = await callersSeen(from, to);
      response.set("Cache-Control", "no-store").json({
        scope,
        processes,
        from: written(from),
        to: written(to),
        since: written(since),
        completeSince: written(completeSince),
        ages,
        apps: apps.map(({ firstSeenAt, ...app }) => ({ ...app, firstSeenAt: written(firstSeenAt) })),
      });
    })
    .all(readOnly);
  return router;
}

function written(at: number): string {
  return new Date(at).toISOString();
}
