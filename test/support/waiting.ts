import type { Priority } from "../../src/telemetry/events.ts";
import type { Waiting } from "../../src/ratelimit/throttled.ts";

export interface WaitingOptions {
  /** Epoch milliseconds. */
  readonly deadlineAt?: number;
  readonly abandoned?: AbortSignal;
  readonly priority?: Priority;
}

/** The waiters of an upstream call: by default without a deadline, with a fixed priority and no further waiters. */
export function waitingOf(options: WaitingOptions = {}): Waiting {
  const { deadlineAt = Number.POSITIVE_INFINITY, abandoned = new AbortController().signal } = options;
  const { priority = "interactive" } = options;
  return {
    deadlineAt: () => deadlineAt,
    abandoned,
    priority: () => priority,
    apps: () => [],
    onChange: () => undefined,
    inQueue: () => undefined,
  };
}
