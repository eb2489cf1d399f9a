/** `POST /config/reload`: reads the settings again. */
import express, { type Router } from "express";

import type { ReloadOutcome } from "../config/live.ts";
import { Problem } from "../errors.ts";
import { postOnly } from "./guard.ts";

export interface AdminReloadOptions {
  readonly reload: () => ReloadOutcome;
}

export function createAdminReload({ reload }: AdminReloadOptions): Router {
  const router = express.Router();
  router
    .route("/config/reload")
    .post((_request, response) => {
      const result = reload();
      if (result.kind === "applied") {
        const changes = result.changes.map(({ path, from, to }) =>
          from === undefined || to === undefined ? { path, secret: "changed" } : { path, from, to },
        );
        response.json({ applied: true, changes });
        return;
      }
      const { kind, problems } = result;
      throw new Problem(kind === "invalid" ? "invalid-settings" : "restart-needed", { problems });
    })
    .all(postOnly);
  return router;
}
