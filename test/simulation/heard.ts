/** Which replicas there are, as readReplicas in src/ratelimit/lua/prelude.lua reckons. */
import type { Terms } from "../../src/ratelimit/arbiter.ts";
import { SILENT_MS } from "../../src/ratelimit/shared-allowance.ts";
import type { Queued } from "../../src/ratelimit/queued.ts";
import type { Asker } from "../../src/ratelimit/shared-budget.ts";

const REJOIN_GRACE_MS = 5_000;

export interface Heard {
  readonly heardAt: number;
  readonly known: number;
  /** It waits for its turn. */
  readonly wait: { readonly at: number; readonly rank: number; readonly tag: number } | undefined;
  /** Who waits there. */
  readonly queued: readonly Queued[];
  /** It was lost in a restart, and has not come back. */
  readonly isLost?: boolean;
}

export interface Others {
  readonly live: Map<string, NonNullable<Heard["wait"]>>;
  readonly liveCount: number;
  readonly silentCount: number;
  /** Those that something is held back for, by window. */
  readonly held: readonly number[];
  /** These, and the ones that have not caught up. */
  readonly apart: readonly number[];
  readonly oldest: number | undefined;
  /** Who waits at those that are live. */
  readonly queued: readonly Queued[];
}

export interface Reckoning {
  readonly replicas: number;
  readonly absentForMs: number;
  readonly seq: number;
  readonly slack: number;
  /** When the generation began. */
  readonly begun: number;
}

export function readReplicas(
  replicas: Map<string, Heard>,
  { replica, mostSeen }: Asker,
  now: number,
  options: Reckoning,
  { windows, leaseMs }: Terms,
): Others {
  const live: Others["live"] = new Map();
  const silent: (Heard & { readonly name: string })[] = [];
  let oldest: number | undefined;
  let behind = 0;
  const queued: Queued[] = [];
  for (const [name, heard] of replicas) {
    if (heard.heardAt >= now - SILENT_MS || name === replica) {
      live.set(name, heard.wait ?? { at: 0, rank: 0, tag: 0 });
      if (name === replica) continue;
      queued.push(...heard.queued);
      oldest = Math.min(oldest ?? heard.known, heard.known);
      if (options.seq - heard.known > options.slack) behind++;
    } else silent.push({ ...heard, name });
  }
  const liveCount = live.size;
  const longestMs = Math.max(...windows.map(({ windowMs }) => windowMs));
  for (const { name, heardAt, isLost } of silent) {
    const isReplaced = liveCount >= options.replicas && heardAt < now - REJOIN_GRACE_MS;
    const replacedMs = isLost ? leaseMs + longestMs : 0;
    if (now > heardAt + (isReplaced ? replacedMs : options.absentForMs + longestMs)) replicas.delete(name);
  }
  const count = (is: (one: Heard) => boolean): number => silent.filter(is).length;
  const justSilent = count(({ heardAt }) => heardAt >= now - REJOIN_GRACE_MS);
  const isBegun = now >= options.begun + REJOIN_GRACE_MS;
  const held = windows.map(({ windowMs }) => {
    const absent = count(({ heardAt }) => now <= heardAt + options.absentForMs + windowMs);
    return Math.max(
      Math.min(isBegun ? absent : options.replicas, Math.max(0, options.replicas - liveCount)),
      Math.min(justSilent, Math.max(0, mostSeen - liveCount)),
      count(({ heardAt, isLost }) => isLost === true && now <= heardAt + leaseMs + windowMs),
    );
  });
  const apart = held.map((one) => one + behind);
  return { live, liveCount, silentCount: silent.length, held, apart, oldest, queued };
}
