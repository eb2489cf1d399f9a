/**
 * How long a caller is willing to wait, where it says so: `X-Request-Deadline-Ms`, or the preference
 * `wait` (RFC 7240, section 4.3). Either can only shorten what the settings allow.
 */
import { Problem } from "../errors.ts";
import { elementsOf } from "../http-lists.ts";
import { shownToCaller } from "../query/credentials.ts";

/** Header with the milliseconds, from its arrival, within which a request is to be answered. */
const DEADLINE_HEADER = "x-request-deadline-ms";

/** How long a request may take, as agreed with its caller. */
export interface Patience {
  /** Milliseconds from the arrival. */
  readonly waitMs: number;
  /** Value of `Preference-Applied` (RFC 7240, section 3) where the preference made the difference. */
  readonly preferenceApplied: string | undefined;
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * The shortest of what the settings, the deadline header and the preference say.
 * @param headers as Node gives them: names in lower case, several lines of one name joined by commas
 * @param maxWaitMs the most that the settings allow, in milliseconds
 * @throws {Problem} `malformed-request` where the deadline header is not one positive whole number. A
 *   preference that cannot be read, or met, is ignored (RFC 7240, section 2).
 */
export function patienceOf(headers: Headers, maxWaitMs: number): Patience {
  const allowedMs = Math.min(maxWaitMs, deadlineIn(headers[DEADLINE_HEADER]) ?? maxWaitMs);
  const preferredSeconds = preferredWait(headers["prefer"]);
  if (preferredSeconds === undefined || preferredSeconds * 1000 > allowedMs)
    return { waitMs: allowedMs, preferenceApplied: undefined };
  return { waitMs: preferredSeconds * 1000, preferenceApplied: `wait=${preferredSeconds}` };
}

/** A whole number above zero; there is no upper bound, because the settings have one. */
const POSITIVE = /^0*[1-9]\d*$/;

const LONGEST_ECHO = 40;

function deadlineIn(value: Headers[string]): number | undefined {
  if (value === undefined) return undefined;
  const text = String(value);
  if (POSITIVE.test(text)) return Number(text);
  const echo = shownToCaller(text);
  const shown = JSON.stringify(echo.length > LONGEST_ECHO ? `${echo.slice(0, LONGEST_ECHO)}…` : echo);
  throw new Problem("malformed-request", {
    detail: `X-Request-Deadline-Ms is ${shown}; expected it once, a whole number of milliseconds above zero.`,
  });
}

/** @returns the seconds preferred; nothing can be answered in no time, so `wait=0` counts for nothing */
function preferredWait(value: Headers[string]): number | undefined {
  const wait = value === undefined ? undefined : elementsOf(String(value)).get("wait");
  return wait !== undefined && POSITIVE.test(wait) ? Number(wait) : undefined;
}
