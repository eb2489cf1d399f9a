/** Which replicas there are, as readReplicas in src/budget/lua/prelude.lua reckons. */
import { SILENT_MS } from "../../src/budget/shared-allowance.ts";
import type { Asker } from "../../src/budget/shared-budget.ts";

const REJOIN_GRACE_MS = 5_000;

export interface Heard {
  readonly heardAt: number;
  readonly known: number;
  /** It waits for its turn. */
  readonly wait: { readonly at: number; readonly rank: number; readonly tag: number } | undefined;
}

export interface Others {
  readonly live: Map<string, NonNullable<Heard["wait"]>>;
  readonly liveCount: number;
  readonly held: number;
  /** These, and the ones that have not caught up. */
  readonly apart: number;
  readonly oldest: number | undefined;
}

export function readReplicas(
  replicas: Map<string, Heard>,
  { replica, mostSeen }: Asker,
  now: number,
  options: {
    readonly replicas: number;
    readonly absentForMs: number;
    readonly seq: number;
    readonly begunAt: number;
    readonly slack: number;
  },
): Others {
  const live: Others["live"] = new Map();
  let oldest: number | undefined;
  let [liveCount, silent, justSilent, behind] = [0, 0, 0, 0];
  for (const [name, { heardAt, known, wait }] of replicas) {
    if (heardAt >= now - SILENT_MS || name === replica) {
      live.set(name, wait ?? { at: 0, rank: 0, tag: 0 });
      liveCount++;
      if (name === replica) continue;
      oldest = Math.min(oldest ?? known, known);
      if (options.seq - known > options.slack) behind++;
    } else if (heardAt < now - options.absentForMs) replicas.delete(name);
    else {
      silent++;
      if (heardAt >= now - REJOIN_GRACE_MS) justSilent++;
    }
  }
  if (now < options.begunAt + REJOIN_GRACE_MS) silent = Math.max(silent, options.replicas - liveCount);
  const held = Math.max(
    Math.min(silent, Math.max(0, options.replicas - liveCount)),
    Math.min(justSilent, Math.max(0, mostSeen - liveCount)),
  );
  return { live, liveCount, held, apart: held + behind, oldest };
}
