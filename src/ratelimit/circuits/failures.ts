/** Decides which ends of calls are failures, and when calls open a circuit. */
import { refusesKey, type Resource } from "../../interface/resources.ts";
import type { CircuitScope } from "../../telemetry/events.ts";
import type { SendEnd } from "../call-facts.ts";

/** What opens circuits, which part each stops, and what an operator reads. */
export const CAUSES = {
  /** On a 429. */
  "too-many-requests": { stops: "origin", says: "it answered 429: too many requests" },
  /** On a 503 with `Retry-After`. */
  unavailable: { stops: "resource", says: "it answered 503 with a time to come back" },
  /** On 4 failures that are half of the last calls (500, 503, timeouts, resets). */
  failing: { stops: "resource", says: "most of its last answers were errors or timeouts" },
  /** On 3 calls in a row to which the upstream sent nothing. */
  unreachable: { stops: "origin", says: "its last three calls got no answer" },
  /** On 401 or 403 to 3 different signed questions in a row. */
  credentials: { stops: "origin", says: "it refused our credentials" },
} as const;
export type CircuitCause = keyof typeof CAUSES;

/** How a call ended. `unknown`: it ended before the upstream could answer, so it is neither a success nor a failure. */
export type Result =
  | "answered"
  | "failed"
  | "credentials"
  | "unknown"
  | NonNullable<SendEnd["slowDown"]>["cause"];

const OUTCOMES = 10;
const FAILURES_TO_OPEN = 4;
const UNREACHABLE_TO_OPEN = 3;
const REFUSED_TO_OPEN = 3;
const UNKNOWN: ReadonlySet<SendEnd["status"]> = new Set(["given-up", "stale-connection", "no-descriptor"]);

export function kindOf(
  { status, slowDown }: Pick<SendEnd, "status" | "slowDown">,
  resource: Resource,
): Result {
  if (refusesKey(status, resource)) return "credentials";
  if (slowDown !== undefined) return slowDown.cause;
  if (typeof status === "number") return status >= 500 ? "failed" : "answered";
  if (UNKNOWN.has(status)) return "unknown";
  // Only this answer is useless. The upstream works.
  return status === "too-large" ? "answered" : "failed";
}

/** The ends of the last calls of an origin. */
export class LastCalls {
  /** Whether each of the last calls for a resource has failed. */
  readonly #outcomes = new Map<Resource, readonly boolean[]>();
  #unreachableInARow = 0;
  /** Different questions that were refused for their credentials, since the last answer. */
  readonly #refusedQuestions = new Set<string>();

  /** A call has ended. @returns why a circuit is to open */
  ended(
    { resource, query }: { readonly resource: Resource; readonly query: string },
    kind: Result,
  ): CircuitCause | undefined {
    if (kind === "unknown") return undefined;
    this.#unreachableInARow = kind === "unreachable" ? this.#unreachableInARow + 1 : 0;
    if (kind === "credentials") this.#refusedQuestions.add(query);
    if (kind === "answered") this.#refusedQuestions.clear();
    const before = this.#outcomes.get(resource) ?? [];
    const recent = [...before.slice(1 - OUTCOMES), kind === "failed" || kind === "unreachable"];
    this.#outcomes.set(resource, recent);

    if (kind === "too-many-requests" || kind === "unavailable") return kind;
    if (kind === "credentials" && this.#refusedQuestions.size >= REFUSED_TO_OPEN) return kind;
    if (this.#unreachableInARow >= UNREACHABLE_TO_OPEN) return "unreachable";
    const failures = recent.filter((isFailure) => isFailure).length;
    const isFailing = failures >= FAILURES_TO_OPEN && failures * 2 >= recent.length;
    return kind === "failed" && isFailing ? "failing" : undefined;
  }

  /** Whether this process got no answer to its last call. */
  readonly isCutOff = (): boolean => this.#unreachableInARow > 0;

  /** A circuit has closed: forgets what opened it. */
  forget(scope: CircuitScope): void {
    if (scope !== "origin") return void this.#outcomes.delete(scope);
    this.#unreachableInARow = 0;
    this.#refusedQuestions.clear();
  }
}
