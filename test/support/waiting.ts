import type { Priority, Waiting } from "../../src/types.ts";

export interface WaitingOptions {
  /** Epoch milliseconds. */
  readonly deadlineAt?: number;
  readonly abandoned?: AbortSignal;
  readonly priority?: Priority;
}

/** One who waits for an upstream call, unless told otherwise for ever, and no more urgently later on; nobody joins. */
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
