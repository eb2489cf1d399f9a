/**
 * Tokens of listed apps. With a token, an app id counts only with it, so that one app cannot pose as another: a request
 * without it, or with a wrong one, is served as the app `other`.
 */
import { createHash, timingSafeEqual } from "node:crypto";

import { atMostEvery, type Clock } from "../process/clock.ts";
import { OTHER_APP, type Observer } from "../types.ts";

export interface AppTokensOptions {
  /** The token of each app that has one, by its id; another map when they have changed. */
  readonly tokens: () => ReadonlyMap<string, string>;
  readonly now: Clock["now"];
  readonly warn: Observer["warn"];
  readonly refused: (app: string) => void;
}

/**
 * @param app whose id the request names
 * @param authorization the header of the request: `Bearer TOKEN` (RFC 6750, section 2.1)
 * @returns the app that the request counts as
 */
export type CheckAppToken = (app: string, authorization: string | undefined) => string;

const WARN_EVERY_MS = 60_000;

export function createAppTokens({ tokens, now, warn, refused }: AppTokensOptions): CheckAppToken {
  let of: ReadonlyMap<string, string> | undefined;
  let digests: ReadonlyMap<string, Buffer> = new Map();
  const warnings = new Map<string, () => void>();

  function digestOf(app: string): Buffer | undefined {
    const current = tokens();
    if (of !== current) {
      of = current;
      digests = new Map([...current].map(([id, token]) => [id, digest(token)]));
    }
    return digests.get(app);
  }

  return (app, authorization) => {
    const expected = digestOf(app);
    if (expected === undefined) return app;
    const [, token = ""] = /^Bearer +(\S+)$/i.exec(authorization ?? "") ?? [];
    // Digests have one length, so the comparison takes the same time for any token.
    if (timingSafeEqual(digest(token), expected)) return app;
    refused(app);
    const report = warnings.get(app) ?? atMostEvery(WARN_EVERY_MS, now, (times) => warnOf(app, times));
    warnings.set(app, report);
    report();
    return OTHER_APP;
  };

  function warnOf(app: string, times: number): void {
    warn("Requests name an app without its token. They count as the app other.", { app, times });
  }
}

function digest(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
