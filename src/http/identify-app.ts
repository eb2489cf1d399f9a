/**
 * Finds the app that sends a request: the header `server.appIdHeader` (X-App-Id) names it, or else its User-Agent.
 *
 * A listed app may have a token, so that no other app can use its id. Then its id counts only in requests with that token. The
 * gateway serves all other requests with this id as the app `other`.
 */
import type { IncomingHttpHeaders } from "node:http";

import type { Config } from "../config/config.ts";
import type { Context } from "../context.ts";
import { atMostEvery } from "../process/clock.ts";
import { memoize } from "../process/memoize.ts";
import type { GatewayRequest } from "../query/request.ts";
import { OTHER_APP } from "../telemetry/events.ts";
import { bearerToken, digestOf, isToken } from "./token.ts";

export type Identify = ReturnType<typeof createIdentify>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createIdentify(context: Context) {
  const { apps, clock, config, keys, metrics, observer, settings } = context;
  const message = "Requests name an app without its token. They count as the app other.";
  const warningOf = memoize((app) =>
    atMostEvery(clock.now, (times) => observer.warn(message, { app, times })),
  );
  const listedIn = memoize(byId, 1);
  /** App ids are in labels and reports, so a secret that a caller sent by mistake is no app id. */
  const withoutSecret = (text = ""): string =>
    keys.known.some((secret) => text.includes(secret)) ? "" : text;

  return {
    /** @returns the app for which the gateway serves a request with these headers */
    appOf(headers: IncomingHttpHeaders, now: number): string {
      const appId = headers[config.server.appIdHeader]?.toString();
      const app = apps.identify(withoutSecret(appId), withoutSecret(headers["user-agent"]), now);
      const digest = listedIn(settings.current().apps).get(app)?.digest;
      if (digest === undefined || isToken(bearerToken(headers.authorization), digest)) return app;
      metrics.record("gateway_app_tokens_refused_total", { app: apps.labelOf(app) });
      warningOf(app)();
      return OTHER_APP;
    },
    rightsOf: (app: string): Pick<GatewayRequest, "priority" | "mayForceRefresh"> =>
      listedIn(settings.current().apps).get(app) ?? UNLISTED_APP,
  };
}

const UNLISTED_APP = { priority: "interactive", mayForceRefresh: false } as const;

/** The listed apps by id, with the digest of the token. */
function byId(apps: Config["apps"]) {
  return new Map(
    apps.map((app) => [app.id, { ...app, digest: app.token ? digestOf(app.token.reveal()) : undefined }]),
  );
}
