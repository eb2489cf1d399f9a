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
  { path: "budget.degradedShare", instead: "It had no effect; use budget.degradedReserve." },
  {
    path: "admin.openMetrics",
    env: "ADMIN_OPEN_METRICS",
    instead: "Remove it; /metrics never needs the token.",
  },
];

/** @returns what to do instead of a setting that earlier versions had */
export function insteadOf(path: string): string | undefined {
  return REMOVED.find((removed) => removed.path === path)?.instead;
}
