/**
 * Signs requests, and reacts when the upstream refuses the signature (interface, section 5).
 */
import { hash } from "node:crypto";

import { httpDateMs } from "../http-fields.ts";
import type { Observer } from "../types.ts";

export interface SignerOptions {
  readonly callerId: string;
  /** Called for each signature, because the key may change. */
  readonly privateKey: () => string;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** @returns 16 new random characters */
  readonly unique16: () => string;
}

/** Adds a signature to a path with or without a query. */
export type Sign = (target: string) => string;

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
    return `${target}${target.includes("?") ? "&" : "?"}${caller}&time=${time}&unique=${unique}&hash=${signature}`;
  };
}

/** The credentials that requests are signed with. */
export interface Credentials {
  /** Changes whenever the credentials change. */
  readonly version: () => number;
  /** Checks immediately whether there are new credentials. */
  readonly checkAgain: () => void;
}

/** An answer, and the version of the credentials its request was signed with. */
interface SignedAnswer {
  readonly status: number;
  readonly date: string | undefined;
  readonly signedWith: number;
}

/**
 * If the upstream refused the credentials, checks whether there are new ones. If there are none, logs what operators must
 * check.
 * @param now epoch milliseconds
 * @returns whether there are new credentials, so that a retry may succeed
 */
export function areRenewed(
  { status, date, signedWith }: SignedAnswer,
  { credentials, observer }: { readonly credentials: Credentials; readonly observer: Observer },
  now: number,
): boolean {
  if (status !== 401 && status !== 403) return false;
  credentials.checkAgain();
  if (credentials.version() !== signedWith) return true;
  reportRefusedCredentials(status, date, observer, now);
  return false;
}

/**
 * Logs what operators must check when the upstream refuses the credentials. Ignores all other statuses.
 * @param date the upstream's `Date` header, because different clocks are a common cause
 * @param now epoch milliseconds
 */
export function reportRefusedCredentials(
  status: number,
  date: string | undefined,
  observer: Observer,
  now: number,
): void {
  if (status !== 401 && status !== 403) return;
  const upstreamNow = httpDateMs(date, now);
  const clockSkewSeconds = upstreamNow === undefined ? "unknown" : Math.round((upstreamNow - now) / 1000);
  observer.error(
    "The upstream refused our credentials. Check upstream.privateKey, upstream.callerId, and this machine's clock (clockSkewSeconds: theirs minus ours).",
    { status, clockSkewSeconds },
  );
}
