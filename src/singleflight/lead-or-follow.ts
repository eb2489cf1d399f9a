/**
 * Request coalescing among replicas: one of the replicas that need a key fetches it, and the others wait.
 */
import { BUDGET_SPENT, Problem } from "../errors.ts";
import type { Waiting } from "../ratelimit/throttled.ts";
import { mayBeWithdrawn } from "./flight.ts";
import type { Failure, ReplicaLeases } from "./replica-leases.ts";

/** The result of a flight, and its origin. */
export interface FlightResult<T> {
  readonly value: T;
  /** Whether another replica fetched it. */
  readonly isFollowed: boolean;
}

interface Steps<T> {
  /** Looks up the value in the store. */
  readonly look: () => Promise<T | undefined>;
  /** Fetches the value from the upstream and stores it. */
  readonly fetch: () => Promise<T>;
}

export type LeadOrFollow<T> = ReturnType<typeof createLeadOrFollow<T>>;

/** @param claims absent if there are no other replicas */
export function createLeadOrFollow<T>(claims: Pick<ReplicaLeases, "claim"> | undefined) {
  /**
   * Fetches a key as the leader, or follows the replica that is fetching it.
   * Resolves with `undefined` if the leader ended without a result for this replica. Then the caller must try again.
   */
  return async function leadOrFollow(
    key: string,
    waiting: Waiting,
    { look, fetch }: Steps<T>,
  ): Promise<FlightResult<T> | undefined> {
    const claim = await claims?.claim(key, waiting.abandoned);
    if (claim?.kind === "follower") {
      const failed = await claim.ended;
      if (failed !== undefined) throw failed;
      const value = await look();
      return value === undefined ? undefined : { value, isFollowed: true };
    }
    let failure: Failure;
    try {
      // A lookup missed before this flight began. An earlier flight may have stored its answer in between.
      return { value: (await look()) ?? (await fetch()), isFollowed: false };
    } catch (error) {
      failure = failureForAll(error, waiting);
      throw error;
    } finally {
      if (claim?.kind === "leader") await claim.release(failure);
    }
  };
}

/** A refusal by the limiter concerns only this replica's callers: others have other shares, priorities and deadlines. */
function failureForAll(error: unknown, { abandoned }: Waiting): Failure {
  const concernsAll =
    error instanceof Problem &&
    !BUDGET_SPENT.has(error.code) &&
    error.code !== "budget-unavailable" &&
    error.details.ofBackground !== true &&
    !(abandoned.aborted && mayBeWithdrawn(error));
  return concernsAll ? error : undefined;
}
