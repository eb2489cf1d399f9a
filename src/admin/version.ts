/** `GET /version`: which versions run. */
import express, { type Router } from "express";

import { readOnly } from "./guard.ts";

export interface AdminVersionOptions {
  readonly version: { readonly version: string; readonly node: string };
}

export function createAdminVersion({ version }: AdminVersionOptions): Router {
  const router = express.Router();
  router
    .route("/version")
    .get((_request, response) => void response.json(version))
    .all(readOnly);
  return router;
}
