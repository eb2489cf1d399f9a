/**
 * What opens a circuit: what the ends of calls say about the upstream.
 *
 * | Cause               | Opens                                                        | Scope        |
 * |---------------------|--------------------------------------------------------------|--------------|
 * | `too-many-requests` | on a 429                                                     | the origin   |
 * | `unavailable`       | on a 503 with `Retry-After`                                  | the resource |
 * | `failing`           | on 4 failures that are half of the last calls (500, 503, timeouts, resets) | the resource |
 * | `unreachable`       | on 3 calls in a row that reached nothing                     | the origin   |
 * | `credentials`       | on 401 or 403 to 3 different questions in a row              | the origin   |
 */
import type { Resource } from "../../interface/resources.ts";
import type { SendEnd } from "../throttled.ts";

export type CircuitCause = "too-many-requests" | "unavailable" | "failing" | "unreachable" | "credentials";

/** The part of the upstream that a circuit stops. */
export type CircuitScope = "origin" | Resource;

/** Why a circuit is to open, and for how long if the upstream says so. */
export interface Found {
  readonly scope: CircuitScope;
  readonly cause: CircuitCause;
  readonly forMs: number | undefined;
}

/** `unknown`: the call ended before the upstream could answer, so it is neither a success nor a failure. */
type Kind = "answered" | "failed" | "unreachable" | "credentials" | "slow-down" | "unknown";

const OUTCOMES = 10;
const OUTCOMES_MS = 5 * 60_000;
const FAILURES_TO_OPEN = 4;
const UNREACHABLE_TO_OPEN = 3;
const REFUSED_TO_OPEN = 3;
const UNKNOWN: ReadonlySet<SendEnd["status"]> = new Set(["given-up", "stale-connection", "no-descriptor"]);

export function kindOf({ status, slowDown }: Pick<SendEnd, "status" | "slowDown">): Kind {
  if (status === 401 || status === 403) return "credentials";
  if (slowDown?.cause === "unreachable") return "unreachable";
  if (slowDown !== undefined) return "slow-down";
  if (typeof status === "number") return status >= 500 ? "failed" : "answered";
  if (UNKNOWN.has(status)) return "unknown";
  // Only this answer is useless. The upstream works.
  return status === "too-large" ? "answered" : "failed";
}

/** The ends of the last calls of an origin. Instants are milliseconds of the monotonic clock. */
export class LastCalls {
  readonly #outcomes = new Map<Resource, readonly { readonly at: number; readonly isFailure: boolean }[]>();
  #unreachableInARow = 0;
  /** Different questions that were refused for their credentials, since the last answer. */
  readonly #refusedQuestions = new Set<string>();

  /** A call has ended. @returns the circuit that is to open */
  ended(
    { resource, question }: { readonly resource: Resource; readonly question: string },
    end: Pick<SendEnd, "status" | "slowDown">,
    now: number,
  ): Found | undefined {
    const kind = kindOf(end);
    this.#unreachableInARow = kind === "unreachable" ? this.#unreachableInARow + 1 : 0;
    if (kind === "credentials") this.#refusedQuestions.add(question);
    if (kind === "answered") this.#refusedQuestions.clear();
    const isFailure = kind === "failed" || kind === "unreachable";
    const before = (this.#outcomes.get(resource) ?? []).filter(({ at }) => now - at < OUTCOMES_MS);
    const recent = [...before.slice(1 - OUTCOMES), { at: now, isFailure }];
    this.#outcomes.set(resource, recent);

    const forMs = end.slowDown?.forMs;
    if (kind === "slow-down")
      return end.slowDown?.cause === "unavailable"
        ? { scope: resource, cause: "unavailable", forMs }
        : { scope: "origin", cause: "too-many-requests", forMs };
    if (kind === "credentials" && this.#refusedQuestions.size >= REFUSED_TO_OPEN)
      return { scope: "origin", cause: "credentials", forMs };
    if (this.#unreachableInARow >= UNREACHABLE_TO_OPEN)
      return { scope: "origin", cause: "unreachable", forMs };
    const failures = recent.filter((one) => one.isFailure).length;
    const isFailing = failures >= FAILURES_TO_OPEN && failures * 2 >= recent.length;
    return kind === "failed" && isFailing ? { scope: resource, cause: "failing", forMs } : undefined;
  }

  /** A circuit has closed: forgets what opened it. */
  forget(scope: CircuitScope, cause: CircuitCause | undefined): void {
    if (scope === "origin") this.#unreachableInARow = 0;
    else this.#outcomes.delete(scope);
    if (cause === "credentials") this.#refusedQuestions.clear();
  }
}
