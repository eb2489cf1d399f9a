/**
 * Request coalescing among replicas: one of the replicas that need a key fetches it, and the others wait.
 */
import { Problem, wasRefusedHere } from "../errors.ts";
import type { Failure, ReplicaLeases } from "./replica-leases.ts";

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
   * @param abandoned ends the wait of a follower
   * @returns `undefined` if the leader ended without a result for this replica. Then the caller must try again.
   */
  return async function leadOrFollow(
    key: string,
    abandoned: AbortSignal,
    { look, fetch }: Steps<T>,
  ): Promise<T | undefined> {
    const claim = await claims?.claim(key, abandoned);
    if (claim?.kind === "follower") {
      const failed = await claim.ended;
      if (failed !== undefined) throw failed;
      return await look();
    }
    let failure: Failure;
    try {
      // A lookup missed before this flight began. An earlier flight may have stored its answer in between.
      return (await look()) ?? (await fetch());
    } catch (error) {
      failure = failureForAll(error);
      throw error;
    } finally {
      if (claim?.kind === "leader") await claim.release(failure);
    }
  };
}

/**
 * What the upstream did concerns all replicas. A refusal concerns only this replica's callers: others have other shares,
 * priorities and deadlines. Others may also have another private key or a better network.
 */
function failureForAll(error: unknown): Failure {
  if (!(error instanceof Problem) || wasRefusedHere(error)) return undefined;
  const isOwn = error.code === "upstream-authentication-failed" || error.code === "upstream-unreachable";
  return error.code.startsWith("upstream-") && !isOwn ? error : undefined;
}
