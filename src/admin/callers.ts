/** `GET /callers`: how the apps identify themselves, and how old the cached answers were that they got. */
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
    meaning: `Start of the period: ${INSTANT_FORMS}. By default one day before its end`,
    example: "-7d",
  },
  { name: "to", meaning: "End of the period, exclusive. By default now", example: "-1h" },
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
        from: isoTime(from),
        to: isoTime(to),
        since: isoTime(since),
        completeSince: isoTime(completeSince),
        ages,
        apps: apps.map(({ firstSeenAt, ...app }) => ({ ...app, firstSeenAt: isoTime(firstSeenAt) })),
      });
    })
    .all(readOnly);
  return router;
}

function isoTime(at: number): string {
  return new Date(at).toISOString();
}
