import type { Resource } from "../../interface/resources.ts";
import type { UpstreamCallRecord } from "../../types.ts";

/** How the latest calls for a resource ended. Instants are epoch milliseconds. */
export interface UpstreamHealth {
  readonly lastAnswerAt: number | null;
  readonly lastFailureAt: number | null;
  readonly lastFailure: string | null;
  /** The first failure after the latest answer; `null` if no call has failed since. */
  readonly failingSince: number | null;
}

const UNKNOWN: UpstreamHealth = {
  lastAnswerAt: null,
  lastFailureAt: null,
  lastFailure: null,
  failingSince: null,
};

/** Remembers for each resource whether the upstream answers, and since when it does not. */
export function createUpstreamHealth(): {
  /** @returns whether it was an answer */
  readonly ended: (call: UpstreamCallRecord, at: number) => boolean;
  readonly all: () => ReadonlyMap<Resource, UpstreamHealth>;
} {
  const states = new Map<Resource, UpstreamHealth>();
  return {
    ended({ resource, status }, at) {
      const before = states.get(resource) ?? UNKNOWN;
      const answered = isAnswer(status);
      states.set(
        resource,
        answered
          ? { ...before, lastAnswerAt: at, failingSince: null }
          : {
              ...before,
              lastFailureAt: at,
              lastFailure: failureText(status),
              failingSince: before.failingSince ?? at,
            },
      );
      return answered;
    },
    all: () => states,
  };
}

/** Whether the upstream answered the query. A 404 is an answer; a rejection of the credentials is not. */
function isAnswer(status: UpstreamCallRecord["status"]): boolean {
  return typeof status === "number" && status < 500 && ![401, 403, 429].includes(status);
}

export function failureText(status: UpstreamCallRecord["status"]): string {
  return typeof status === "number" ? `status ${status}` : status;
}

/**
 * Combines what several processes know about a resource. It is failing if no process has got an answer since the latest
 * failure in any process.
 */
export function combineHealth(states: readonly UpstreamHealth[]): UpstreamHealth {
  const latest = (times: readonly (number | null)[]): number | null =>
    times.reduce((a, b) => (a === null ? b : b === null ? a : Math.max(a, b)), null);
  const lastAnswerAt = latest(states.map((state) => state.lastAnswerAt));
  const lastFailureAt = latest(states.map((state) => state.lastFailureAt));
  const lastFailure = states.find((state) => state.lastFailureAt === lastFailureAt)?.lastFailure ?? null;
  const isFailing = lastFailureAt !== null && lastFailureAt > (lastAnswerAt ?? 0);
  const since = states.flatMap(({ failingSince }) =>
    failingSince !== null && failingSince >= (lastAnswerAt ?? 0) ? [failingSince] : [],
  );
  const failingSince = isFailing ? Math.min(lastFailureAt, ...since) : null;
  return { lastAnswerAt, lastFailureAt, lastFailure, failingSince };
}
