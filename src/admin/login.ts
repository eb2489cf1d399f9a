/** `GET /session`: whether the browser is logged in. `POST /login`, `POST /logout`: set and delete its cookie. */
import express, { type Router } from "express";

import { type AdminGuard, postOnly, readOnly } from "./guard.ts";
import { mistake, refuseUnknownMembers } from "./parameters.ts";
import { type Session, type Sessions, setCookie, usesTls } from "./session.ts";

/** @param sessions `undefined`: no token is set, so no login is needed */
export function createLogin(guard: AdminGuard, sessions: Sessions | undefined): Router {
  const router = express.Router();
  const describe = (session: Session | undefined): object => ({
    loginNeeded: sessions !== undefined && session === undefined,
    expiresAt: session?.expiresAt ?? null,
    csrfToken: session?.csrfToken ?? null,
  });
  router.use(["/session", "/login", "/logout"], (_request, response, next) => {
    response.set("Cache-Control", "no-store");
    next();
  });
  router
    .route("/session")
    .get((request, response) => void response.json(describe(sessions?.of(request))))
    .all(readOnly);
  router
    .route("/login")
    .post(express.json({ limit: "4kb", type: () => true }), (request, response) => {
      if (sessions === undefined) throw mistake("No token is set (ADMIN_TOKEN), so no login is needed.");
      const body: unknown = request.body;
      const token: unknown =
        typeof body === "object" && body !== null ? Reflect.get(body, "token") : undefined;
      refuseUnknownMembers(body, ["token"]);
      if (typeof token !== "string") throw mistake('Send JSON with "token": the admin token.');
      guard.checkToken(token);
      const cookie = setCookie(sessions.open(), usesTls(request));
      response.set("Set-Cookie", cookie);
      response.json(describe(sessions.of({ headers: { cookie } })));
    })
    .all(postOnly);
  router
    .route("/logout")
    .post((request, response) => {
      response.set("Set-Cookie", setCookie("", usesTls(request)));
      response.json(describe(undefined));
    })
    .all(postOnly);
  return router;
}
