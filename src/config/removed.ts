/**
 * Settings that earlier versions had. A file or an environment that still has one is refused with its sentence.
 * `npm run generate` writes the list into docs/upgrading.md.
 */
interface RemovedSetting {
  /** The path in a file. A section stands for all settings in it. */
  readonly path: string;
  readonly env?: string;
  /** What to do instead, as one sentence. */
  readonly instead: string;
}

export const REMOVED: readonly RemovedSetting[] = [
  {
    path: "query.ignored",
    instead: "Use query.ignore; names of keys and tokens are always ignored.",
  },
  { path: "budget.degradedShare", instead: "It had no effect; use budget.degradedReserve." },
  {
    path: "admin.openMetrics",
    env: "ADMIN_OPEN_METRICS",
    instead: "Remove it; /metrics never needs the token.",
  },
  {
    path: "derive",
    env: "DERIVE_MODE",
    instead:
      "Remove it; answers are no longer computed from broader searches, which saved 8 % of the remaining calls.",
  },
  { path: "pages.block", instead: "Remove it; a block has 500 records." },
  {
    path: "pages.verify",
    instead: "Remove it; checks make at most one per cent of the calls that are made anyway.",
  },
  { path: "pages.maxExtraLatency", instead: "Remove it; the block is always fetched." },
  { path: "cache.adaptiveTtl", instead: "Set cache.ttl by gateway_refreshes_total." },
  { path: "cache.ttlMin", instead: "Set cache.ttl." },
  { path: "cache.ttlMax", instead: "Set cache.ttl." },
];

/** @returns what to do instead of a setting that earlier versions had */
export function insteadOf(path: string): string | undefined {
  return REMOVED.find((removed) => removed.path === path)?.instead;
}
