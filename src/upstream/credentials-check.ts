import type { Observer } from "../exchange.ts";

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
  const upstreamNow = Date.parse(date ?? "");
  const clockSkewSeconds = Number.isNaN(upstreamNow) ? "unknown" : Math.round((upstreamNow - now) / 1000);
  observer.error(
    "The upstream refused our credentials. Check upstream.privateKey, upstream.callerId, and this machine's clock (clockSkewSeconds: theirs minus ours).",
    { status, clockSkewSeconds },
  );
}
