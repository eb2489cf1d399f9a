/** What an exchange says of how much the upstream can take. Pure. */
import type { SendEnd, UpstreamFaultKind } from "../types.ts";
import type { RawAnswer } from "./fetch.ts";
import { retryAfterMs } from "./retry-after.ts";

type SlowDown = NonNullable<SendEnd["slowDown"]>;

/**
 * A 429 asks to slow down; a 503 does where it names a time (RFC 9110, section 15.6.4; RFC 6585, section 4).
 * @param now epoch milliseconds
 */
export function slowDownIn(
  { status, headers }: Pick<RawAnswer, "status" | "headers">,
  now: number,
): SlowDown | undefined {
  const forMs = retryAfterMs(headers["retry-after"], now);
  if (status === 429) return { cause: "too-many-requests", forMs };
  return status === 503 && forMs !== undefined ? { cause: "unavailable", forMs } : undefined;
}

/** No connection came about, or nothing came over it: once is nothing, several times in a row are. */
export function slowDownAfter(fault: UpstreamFaultKind): SlowDown | undefined {
  return NO_SIGN_OF_LIFE.has(fault) ? { cause: "unreachable", forMs: undefined } : undefined;
}

const NO_SIGN_OF_LIFE: ReadonlySet<UpstreamFaultKind> = new Set([
  "unreachable",
  "connect-timeout",
  "header-timeout",
]);
