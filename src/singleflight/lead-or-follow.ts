/**
 * Request coalescing among replicas: one of the replicas that need a key fetches it, and the others wait.
 *
 * A claim ends in one of three ways. `landed`: the entry is in the shared store. `failed`: all replicas use the leader's
 * problem, because otherwise each replica would call a failing upstream. `vacant`: the leader withdrew or died.
 */
import { BUDGET_SPENT, Problem } from "../errors.ts";
import type { Waiting } from "../ratelimit/throttled.ts";
import { mayBeWithdrawn, type FlightResult } from "./flight.ts";

/** How the flight of another replica ended. */
export type ClaimEnd =
  /** The entry is in the shared store. */
  | { readonly kind: "landed" }
  | { readonly kind: "failed"; readonly problem: Problem }
  /** The leader withdrew or died, or the end is unknown. A replica that still needs the answer claims the key again. */
  | { readonly kind: "vacant" };

/** The result of claiming a key: the right to fetch it, or a wait for the replica that has this right. */
export type Claim =
  | { readonly kind: "leader"; readonly release: (end: ClaimEnd) => Promise<void> }
  /** `ended` resolves with the leader's message, or when its lease has expired. It never rejects. */
  | { readonly kind: "follower"; readonly ended: Promise<ClaimEnd>; readonly stop: () => void }
  /** Claims do not work now, so each replica fetches for itself. */
  | { readonly kind: "unavailable" };

export interface Claims {
  /** Never rejects. */
  readonly claim: (key: string) => Promise<Claim>;
}

interface Steps<T> {
  /** Looks up the value in the store. */
  readonly look: () => Promise<T | undefined>;
  /** Fetches the value from the upstream and stores it. */
  readonly fetch: () => Promise<T>;
}

/**
 * Fetches a key as the leader, or follows the replica that is fetching it.
 * Resolves with `undefined` if the leader ended without a result for this replica. Then the caller must try again.
 */
export type LeadOrFollow<T> = (
  key: string,
  waiting: Waiting,
  steps: Steps<T>,
) => Promise<FlightResult<T> | undefined>;

/** @param claims absent if there are no other replicas */
export function createLeadOrFollow<T>(claims: Claims | undefined): LeadOrFollow<T> {
  return async function leadOrFollow(key, waiting, steps) {
    const claim = await claims?.claim(key);
    switch (claim?.kind) {
      case "leader":
        return await lead(claim, waiting, steps);
      case "follower":
        return await follow(claim, waiting, steps);
      case "unavailable":
      case undefined:
        return await findOrFetch(steps);
    }
  };
}

/**
 * A lookup missed before this flight began. One more lookup is needed after the claim, because an earlier flight may have
 * stored its answer in between.
 */
async function findOrFetch<T>({ look, fetch }: Steps<T>): Promise<FlightResult<T>> {
  const found = await look();
  return found !== undefined ? { value: found, how: "found" } : { value: await fetch(), how: "fetched" };
}

async function lead<T>(
  { release }: Extract<Claim, { kind: "leader" }>,
  waiting: Waiting,
  steps: Steps<T>,
): Promise<FlightResult<T>> {
  try {
    const result = await findOrFetch(steps);
    await release({ kind: "landed" });
    return result;
  } catch (error) {
    // A refusal by the limiter concerns only this replica's callers: others have other shares, priorities and deadlines.
    const concernsAll =
      error instanceof Problem &&
      !BUDGET_SPENT.has(error.code) &&
      error.code !== "budget-unavailable" &&
      error.details.ofBackground !== true &&
      !(waiting.abandoned.aborted && mayBeWithdrawn(error));
    await release(concernsAll ? { kind: "failed", problem: error } : { kind: "vacant" });
    throw error;
  }
}

async function follow<T>(
  { ended, stop }: Extract<Claim, { kind: "follower" }>,
  { abandoned }: Waiting,
  { look }: Steps<T>,
): Promise<FlightResult<T> | undefined> {
  try {
    const end = await Promise.race([ended, whenAborted(abandoned)]);
    if (end === ABANDONED) throw new Problem("deadline-exceeded", { internal: "the flight has no waiters" });
    if (end.kind === "failed") throw end.problem;
    const value = end.kind === "landed" ? await look() : undefined;
    return value === undefined ? undefined : { value, how: "followed" };
  } finally {
    stop();
  }
}

const ABANDONED = Symbol("abandoned");

function whenAborted(signal: AbortSignal): Promise<typeof ABANDONED> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(ABANDONED);
    else signal.addEventListener("abort", () => resolve(ABANDONED), { once: true });
  });
}
