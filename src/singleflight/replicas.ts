/**
 * Request coalescing among replicas: of all replicas that want a key, one fetches it and the others wait.
 *
 * The ends of a claim: `landed`, the entry is in the shared store; `failed`, the leader's problem counts for
 * all, or a failing upstream would be asked once per replica; `vacant`, the leader withdrew or died.
 */
import { Problem } from "../errors.ts";
import type { Claim, Claims, FlightResult, Waiting } from "../types.ts";
import { mayBeWithdrawn } from "./flight.ts";

interface Steps<T> {
  /** Looks for the value in the store. */
  readonly look: () => Promise<T | undefined>;
  /** Asks the upstream and stores the value. */
  readonly fetch: () => Promise<T>;
}

/**
 * Fetches a key as the leader, or follows the replica that is fetching it.
 * Resolves with `undefined` when the leader ended without a result for this replica: whoever still waits tries again.
 */
export type LeadOrFollow<T> = (
  key: string,
  waiting: Waiting,
  steps: Steps<T>,
) => Promise<FlightResult<T> | undefined>;

/** @param claims absent when there are no other replicas */
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
 * A caller's lookup missed before this flight began. One more lookup is needed, after the claim: the flight
 * before this one may have stored its answer between the two. No other lookup is needed.
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
    // A refusal by the limiter says nothing about the others: they have their own shares, priorities and deadlines.
    const concernsAll =
      error instanceof Problem &&
      error.code !== "quota-exceeded" &&
      error.code !== "temporary-reduced-capacity" &&
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
    if (end === ABANDONED) throw new Problem("deadline-exceeded", { internal: "nobody waits any more" });
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
