import { Problem } from "../errors.ts";

/**
 * Whether a flight that nobody waited for any more may have ended for just that, in a queue. What was sent comes
 * home all the same: if the upstream failed, that is so for everyone, and asking it again at once would be one
 * call too many.
 */
export function mayBeWithdrawn(error: unknown): boolean {
  if (!(error instanceof Problem)) return true;
  return error.details.refusedHere === true || !error.code.startsWith("upstream-");
}
