/**
 * Request coalescing among replicas: one of the replicas that need a key fetches it, and the others wait.
 */
import { BUDGET_SPENT, Problem } from "../errors.ts";
import type { Waiting } from "../ratelimit/throttled.ts";
import { mayBeWithdrawn } from "./flight.ts";
import type { ClaimEnd, ReplicaLeases } from "./replica-leases.ts";

/** The result of a flight, and its origin. */
export interface FlightResult<T> {
  readonly value: T;
  /** `found`: it was already stored. `fetched`: this replica fetched it. `followed`: another replica fetched it. */
  readonly how: "found" | "fetched" | "followed";
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
export function createLeadOrFollow<T>(claims: Pick<ReplicaLeases, "claim"> | undefined): LeadOrFollow<T> {
  return async function leadOrFollow(key, waiting, steps) {
    const claim = await claims?.claim(key, waiting.abandoned);
    if (claim === undefined || claim.kind === "unavailable") return await findOrFetch(steps);
    if (claim.kind === "follower") return await follow(await claim.ended, steps);
    try {
      const result = await findOrFetch(steps);
      await claim.release({ kind: "landed" });
      return result;
    } catch (error) {
      await claim.release(endOf(error, waiting));
      throw error;
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

async function follow<T>(end: ClaimEnd, { look }: Steps<T>): Promise<FlightResult<T> | undefined> {
  if (end.kind === "failed") throw end.problem;
  const value = end.kind === "landed" ? await look() : undefined;
  return value === undefined ? undefined : { value, how: "followed" };
}

/** A refusal by the limiter concerns only this replica's callers: others have other shares, priorities and deadlines. */
function endOf(error: unknown, { abandoned }: Waiting): ClaimEnd {
  const concernsAll =
    error instanceof Problem &&
    !BUDGET_SPENT.has(error.code) &&
    error.code !== "budget-unavailable" &&
    error.details.ofBackground !== true &&
    !(abandoned.aborted && mayBeWithdrawn(error));
  return concernsAll ? { kind: "failed", problem: error } : { kind: "vacant" };
}
