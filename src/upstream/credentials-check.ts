import type { Observer } from "../types.ts";
import { httpDateMs } from "../http-date.ts";

/** What requests are signed with. */
export interface Credentials {
  /** Tells them apart: it changes when they do. */
  readonly version: () => number;
  /** They may have changed: looks now. */
  readonly lookAgain: () => void;
}

/** An answer, as far as it tells of credentials, and the version of those it was signed with. */
interface Judged {
  readonly status: number;
  readonly date: string | undefined;
  readonly signedWith: number;
}

/**
 * Where the upstream refuses the credentials, looks whether there are others by now, and tells the operators
 * where there are none.
 * @param now epoch milliseconds
 * @returns whether it is worth asking again, with a new signature
 */
export function areRenewed(
  { status, date, signedWith }: Judged,
  { credentials, observer }: { readonly credentials: Credentials; readonly observer: Observer },
  now: number,
): boolean {
  if (status !== 401 && status !== 403) return false;
  credentials.lookAgain();
  if (credentials.version() !== signedWith) return true;
  reportRefusedCredentials(status, date, observer, now);
  return false;
}

/**
 * Tells the operators what to check when the upstream refuses the credentials (interface, section 5):
 * nobody else can mend it. Does nothing for other statuses.
 * @param date the upstream's `Date` header: its clock against ours is a usual cause
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
