/** `GET /callers`: how the apps identify themselves, and how old the answers were that they got from the cache. */
import express, { type Router } from "express";

import type { AppIdentity } from "../ratelimit/apps.ts";
import { readOnly } from "./guard.ts";
import { type AdminParameter, INSTANT_FORMS, parametersOf, periodIn } from "./parameters.ts";

export interface AdminCallersOptions {
  readonly identities: () => readonly AppIdentity[];
  readonly agesServed: (
    from: number,
    to: number,
  ) => {
    /** Epoch milliseconds. */
    readonly since: number;
    readonly answers: number;
    readonly oldestSeconds: number;
    readonly groups: readonly { readonly upToSeconds: number | null; readonly answers: number }[];
  };
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

export function createAdminCallers({ identities, agesServed, now }: AdminCallersOptions): Router {
  const router = express.Router();
  router
    .route("/callers")
    .get((request, response) => {
      const { from, to } = periodIn(parametersOf(request, PERIOD_PARAMETERS), now());
      const { since, ...ages } = agesServed(from, to);
      response.set("Cache-Control", "no-store").json({
        scope: "one process",
        from: written(from),
        to: written(to),
        since: written(since),
        ages,
        apps: identities().map(({ firstSeenAt, ...app }) => ({ ...app, firstSeenAt: written(firstSeenAt) })),
      });
    })
    .all(readOnly);
  return router;
}

function written(at: number): string {
  return new Date(at).toISOString();
}
