/**
 * The operators' way to have the settings read again.
 */
import express, { type Router } from "express";

import { Problem } from "../errors.ts";
import { postOnly } from "./methods.ts";

/** One setting; of a secret nothing is told but that it has changed. */
interface Change {
  readonly path: string;
  readonly from?: string;
  readonly to?: string;
}

/** What came of it; the same forms as in src/config/live-settings.ts. */
type Reload =
  | { readonly kind: "applied"; readonly changes: readonly Change[] }
  | { readonly kind: "invalid" | "restart-needed"; readonly problems: readonly string[] };

export interface AdminReloadOptions {
  readonly reload: () => Reload;
}

/** @returns `POST /config/reload` */
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
