/**
 * Checks the tokens of listed apps, so that one app cannot use the id of another. If an app has a token, its id counts only
 * in requests with that token. The gateway serves all other requests with this id as the app `other`.
 */
import { hash, timingSafeEqual } from "node:crypto";

import type { Secret } from "../config/secrets/secret.ts";
import { atMostEvery, type Clock } from "../process/clock.ts";
import { OTHER_APP, type Observer } from "../telemetry/events.ts";

type ListedApps = readonly { readonly id: string; readonly token: Pick<Secret, "reveal"> | null }[];

export interface AppTokensOptions {
  /** The listed apps. A change of a token makes a new list. */
  readonly listed: () => ListedApps;
  readonly now: Clock["now"];
  readonly warn: Observer["warn"];
  /** Counts a request without the right token. */
  readonly refused: (app: string) => void;
}

/**
 * @param app the app id in the request
 * @param authorization the header of the request: `Bearer TOKEN` (RFC 6750, section 2.1)
 * @returns the app for which the gateway serves the request
 */
export type CheckAppToken = (app: string, authorization: string | undefined) => string;

const WARN_EVERY_MS = 60_000;

export function createAppTokens({ listed, now, warn, refused }: AppTokensOptions): CheckAppToken {
  let digested: ListedApps = [];
  let digests: ReadonlyMap<string, Buffer> = new Map();
  const warnings = new Map<string, () => void>();

  function warnOf(app: string): void {
    const message = "Requests name an app without its token. They count as the app other.";
    const report =
      warnings.get(app) ?? atMostEvery(WARN_EVERY_MS, now, (times) => warn(message, { app, times }));
    warnings.set(app, report);
    report();
  }

  return (app, authorization) => {
    const current = listed();
    if (digested !== current) {
      digested = current;
      digests = new Map(
        current.flatMap(({ id, token }) => (token ? [[id, digest(token.reveal())] as const] : [])),
      );
    }
    const expected = digests.get(app);
    if (expected === undefined) return app;
    const [, token = ""] = /^Bearer +(\S+)$/i.exec(authorization ?? "") ?? [];
    // All digests have the same length, so the comparison takes the same time for any token.
    if (timingSafeEqual(digest(token), expected)) return app;
    refused(app);
    warnOf(app);
    return OTHER_APP;
  };
}

function digest(token: string): Buffer {
  return hash("sha256", token, "buffer");
}
