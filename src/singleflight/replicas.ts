/**
 * Coalescing across replicas: of all replicas that want a key, one fetches it.
 *
 * Each way a claim can end has a name. `landed`: the entry is in the shared store. `failed`: the
 * leader's problem is everyone's, or a sick upstream would be asked once per replica. `vacant`: the
 * leader withdrew or died; those who still wait claim anew.
 *
 * Those who follow tell the leader who waits for it with them: it waits for its turn as what it is worth to all.
 */
import { Problem } from "../errors.ts";
import type { Claim, Claims, FlightWaiting, Waiting } from "../types.ts";
import { mayBeWithdrawn } from "./withdrawn.ts";

/** How a flight came by its value. */
interface Flown<T> {
  readonly value: T;
  /** `found`: it was there already; `fetched`: asked of the upstream; `followed`: another replica asked. */
  readonly how: "found" | "fetched" | "followed";
}

interface Steps<T> {
  /** Looks for the value in the shared store. */
  readonly look: () => Promise<T | undefined>;
  /** Asks the upstream and stores. */
  readonly fetch: () => Promise<T>;
}

/** Flies a key: looks, then fetches, or follows the replica that is fetching. */
export type Fly<T> = (key: string, waiting: FlightWaiting, steps: Steps<T>) => Promise<Flown<T>>;

/** @param claims absent where there are no other replicas */
export function createFly<T>(claims: Claims | undefined): Fly<T> {
  return async function fly(key, waiting, steps) {
    // Another flight may have landed between the lookup that launched this one and now.
    const found = await steps.look();
    if (found !== undefined) return { value: found, how: "found" };
    if (claims === undefined) return { value: await steps.fetch(), how: "fetched" };

    for (;;) {
      const claim = await claims.claim(key);
      switch (claim.kind) {
        case "unavailable":
          return { value: await steps.fetch(), how: "fetched" };
        case "leader":
          return await lead(claim, waiting, steps);
        case "follower": {
          const followed = await follow(claim, waiting, steps);
          if (followed !== undefined) return { value: followed, how: "followed" };
        }
      }
    }
  };
}

async function lead<T>(
  { hear, release }: Extract<Claim, { kind: "leader" }>,
  waiting: FlightWaiting,
  { look, fetch }: Steps<T>,
): Promise<Flown<T>> {
  hear(waiting);
  try {
    // The last leader may have landed just before this claim.
    const found = await look();
    if (found !== undefined) {
      await release({ kind: "landed" });
      return { value: found, how: "found" };
    }
    const value = await fetch();
    await release({ kind: "landed" });
    return { value, how: "fetched" };
  } catch (error) {
    // That there was no place for this one says nothing of others: they have shares, urgency and time of their own.
    const isEveryones =
      error instanceof Problem &&
      error.code !== "quota-exceeded" &&
      error.code !== "temporary-reduced-capacity" &&
      error.details.ofBackground !== true &&
      !(waiting.abandoned.aborted && mayBeWithdrawn(error));
    await release(isEveryones ? { kind: "failed", problem: error } : { kind: "vacant" });
    throw error;
  }
}

/** @returns the value once the leader has landed; `undefined` where the claim is open again */
async function follow<T>(
  { ended, tell, stop }: Extract<Claim, { kind: "follower" }>,
  waiting: Waiting,
  { look }: Steps<T>,
): Promise<T | undefined> {
  try {
    // The message may have been sent before we began to listen for it; the entry was there before it.
    const found = await look();
    if (found !== undefined) return found;
    tell(waiting);
    const end = await Promise.race([ended, whenAborted(waiting.abandoned)]);
    if (end === ABANDONED) throw new Problem("deadline-exceeded", { internal: "nobody waits any more" });
    if (end.kind === "failed") throw end.problem;
    return end.kind === "landed" ? await look() : undefined;
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
