/**
 * What stands behind the memory of this process: a shared store (Redis) or a durable one (SQLite), with
 * what replicas and restarts need besides entries: purges, and flights that span replicas.
 */
import type { Problem } from "../../errors.ts";
import type { Claims } from "../../types.ts";
import type { Purge, PurgeScope } from "./purges.ts";
import type { Store } from "./port.ts";

/** Something that happened in another replica, or before this process began. */
export type BackendEvent =
  /** An entry was stored: an older one under the key is out of date. */
  | { readonly kind: "stored"; readonly key: string; readonly storedAt: number }
  | { readonly kind: "purged"; readonly purges: readonly Purge[] }
  /** A flight failed: the upstream is not to be asked the same again at once. */
  | { readonly kind: "failed"; readonly key: string; readonly problem: Problem }
  /** Events may have been lost; those after this one arrive again. */
  | { readonly kind: "gap" };

export interface Backend {
  readonly store: Store;
  /** Declares something out of date, everywhere. Rejects with `StoreUnavailable`. */
  readonly purge: (scope: PurgeScope, hard: boolean) => Promise<Purge>;
  /** Tells of events, of past purges first. To be called once, before anything else. */
  readonly onEvent: (listener: (event: BackendEvent) => void) => void;
  /** Flights across replicas; absent where there are no other replicas. */
  readonly claims: Claims | undefined;
  readonly close: () => Promise<void>;
}
