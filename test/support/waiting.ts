import type { Priority } from "../../src/telemetry/events.ts";
import type { Waiting } from "../../src/ratelimit/call-facts.ts";

/** The waiters of an upstream call: by default without a deadline, with a fixed priority and no further waiters. */
export function waitingOf({
  /** Epoch milliseconds. */
  deadlineAt = Number.POSITIVE_INFINITY,
  abandoned = new AbortController().signal,
  priority = "interactive",
}: { deadlineAt?: number; abandoned?: AbortSignal; priority?: Priority } = {}): Waiting {
  return {
    deadlineAt: () => deadlineAt,
    abandoned,
    priority: () => priority,
    apps: () => [],
    onChange: () => undefined,
    inQueue: () => undefined,
  };
}
