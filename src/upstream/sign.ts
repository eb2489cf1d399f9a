/**
 * Signs requests, and reacts when the upstream refuses the signature (interface, section 5).
 */
import { hash } from "node:crypto";

import { httpDateMs } from "../http-fields.ts";
import type { Observer } from "../telemetry/events.ts";

export interface SignerOptions {
  readonly callerId: string;
  /** Called for each signature, because the key may change. */
  readonly privateKey: () => string;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** @returns 16 new random characters */
  readonly unique16: () => string;
}

/** A path and query as they are sent. */
interface Signed {
  readonly target: string;
  /** The values that prove who signed, `unique` and `hash`. Nobody but the upstream may see them. */
  readonly signature: readonly string[];
}

/** Adds a signature to a path with or without a query. */
export type Sign = (target: string) => Signed;

/** For an address without authentication. */
export const unsigned: Sign = (target) => ({ target, signature: [] });

/**
 * Signs with `callerId`, `time` in seconds, `unique`, and `hash`: the SHA-1 of callerId, time, private key and unique in
 * this order, as 40 hexadecimal characters.
 *
 * Call it immediately before sending, because the upstream may refuse an old `time`.
 */
export function createSigner({ callerId, privateKey, now, unique16 }: SignerOptions): Sign {
  const caller = new URLSearchParams({ callerId }).toString();
  return (target) => {
    const time = String(Math.floor(now() / 1000));
    const unique = unique16();
    const signature = hash("sha1", callerId + time + privateKey() + unique);
    const separator = target.includes("?") ? "&" : "?";
    return {
      target: `${target}${separator}${caller}&time=${time}&unique=${unique}&hash=${signature}`,
      signature: [unique, signature],
    };
  };
}

/** The credentials that requests are signed with. src/config/secrets/private-key.ts explains them. */
export interface Credentials {
  readonly currentNumber: () => number;
  readonly refused: (number: number) => boolean;
  readonly accepted: (number: number) => "new" | "previous" | undefined;
  /** Checks immediately whether there are new credentials. */
  readonly checkAgain: () => void;
}

/** The parts of a response that show whether the upstream accepted the credentials, and why not. */
interface Reaction {
  readonly status: number;
  /** The upstream's `Date` header, because different clocks are a common cause. */
  readonly date: string | undefined;
  /** The number of the key that the request was signed with, if it was signed. */
  readonly signedWith: number | undefined;
  /** @returns the upstream's explanation, if it may be shown */
  readonly explanation: () => string | undefined;
}

/**
 * If the upstream refused the credentials, checks whether there are others. If there are none, logs what operators must
 * check. If the upstream accepted one key after it had refused the other, logs which key it accepts.
 * @param now epoch milliseconds
 * @returns whether there are other credentials, so that a retry may succeed
 */
export function mayBeTakenNow(
  { status, date, signedWith, explanation }: Reaction,
  { credentials, observer }: { readonly credentials: Credentials; readonly observer: Observer },
  now: number,
): boolean {
  if (status !== 401 && status !== 403) {
    const taken = status < 500 && signedWith !== undefined ? credentials.accepted(signedWith) : undefined;
    if (taken !== undefined)
      observer.warn(`The API takes the ${taken} private key, and refuses the other one.`, { taken });
    return false;
  }
  credentials.checkAgain();
  if (signedWith !== undefined && credentials.refused(signedWith)) return true;
  const upstreamNow = httpDateMs(date, now);
  const clockSkewSeconds = upstreamNow === undefined ? "unknown" : Math.round((upstreamNow - now) / 1000);
  observer.error(
    "The upstream refused our credentials. Check UPSTREAM_PRIVATE_KEY or its file, UPSTREAM_CALLER_ID, and this machine's clock (clockSkewSeconds: theirs minus ours).",
    { status, clockSkewSeconds, explanation: explanation() },
  );
  return false;
}
