/**
 * What a replica may spend without Redis. Pure: `now` is an argument.
 *
 * The numbers in brackets refer to the table of rules in shared-limiter.ts, which also explains the words.
 */
import type { RateWindow } from "../usage/rate-window.ts";

/** How the limits are divided. The same for all replicas, except during a rolling change. */
export interface EscrowSettings {
  /** Most replicas at once (REPLICAS). There are this many slots. */
  readonly replicas: number;
  /** The escrow of all slots together, as a fraction of each limit. */
  readonly degradedReserve: number;
  /** A replica that has been cut off for longer sends nothing. */
  readonly degradedForMs: number;
  /** How long a slot stays with its holder after the last command. */
  readonly leaseMs: number;
  /** A command that takes longer has failed, and has no effect later. */
  readonly timeoutMs: number;
}

/** A window as the script needs it. */
export interface EscrowWindow {
  readonly ms: number;
  readonly limit: number;
  /** Of all slots together. */
  readonly escrow: number;
  /** Longer than `degradedForMs`. */
  readonly isLong: boolean;
  /** The most that one slot can send without Redis until it stops. */
  readonly mostUntilStop: number;
}

/** A lower limit has no escrow: one permit would be more than a fifth of it. */
const LEAST_LIMIT_WITH_ESCROW = 5;
/** How much two clocks may differ in speed. An age is shortened by this part before it is sent to Redis. */
export const DRIFT = 0.001;

/** @returns the windows, the shortest first */
export function escrowWindows(windows: readonly RateWindow[], settings: EscrowSettings): EscrowWindow[] {
  const { replicas, degradedReserve, degradedForMs, leaseMs } = settings;
  const isLong = ({ windowMs }: RateWindow): boolean => windowMs > degradedForMs;
  const cutOffMs = degradedForMs + leaseMs;
  const byShort = windows
    .filter((window) => !isLong(window))
    .map(({ limit, windowMs }) => Math.ceil(limit / replicas) * (2 + Math.ceil(cutOffMs / windowMs)));
  return windows
    .toSorted((a, b) => a.windowMs - b.windowMs)
    .map((window) => {
      const { limit, windowMs: ms } = window;
      const least = limit >= LEAST_LIMIT_WITH_ESCROW ? 1 : 0;
      const escrow = degradedReserve > 0 ? Math.max(least, Math.floor(limit * degradedReserve)) : 0;
      const fair = Math.ceil((2 * limit * cutOffMs) / (ms * replicas));
      const mostByShort = byShort.length > 0 ? Math.min(...byShort) : fair;
      const most = Math.min(Math.ceil(limit / replicas), mostByShort);
      return {
        ms,
        limit,
        escrow,
        isLong: isLong(window),
        mostUntilStop: Math.max(Math.ceil(escrow / replicas), most),
      };
    });
}

/** @returns the part of a total that belongs to a slot. Slots begin at 1. Their parts add up to the total */
function partOf(total: number, slot: number, replicas: number): number {
  return Math.floor(total / replicas) + (slot <= total % replicas ? 1 : 0);
}

/** The part of `arrivalMs` that is left for the transfer from the socket to the upstream. */
const TRANSIT = 0.25;

/** @returns the latest instant at which a call may be written to a socket if its permit was granted now */
export const sendByOf = (now: number, arrivalMs: number): number => now + arrivalMs * (1 - TRANSIT);

/** What a replica knows of its slot. */
export interface Tenure {
  readonly slot: number | undefined;
  /** By window: how many of its own calls may count while it is cut off, as Redis confirmed. */
  readonly quotas: readonly number[];
  /** When it sent the last command that Redis answered. */
  readonly acknowledgedAt: number;
  /** From then on none of its earlier commands can have an effect in Redis. */
  readonly noEffectAfter: number;
}

/** [4] The last instant at which a replica that is cut off may send. */
export function escrowUntil({ acknowledgedAt }: Tenure, { leaseMs, degradedForMs }: EscrowSettings): number {
  return acknowledgedAt + leaseMs + degradedForMs;
}

/** [3] From then on Redis has certainly reserved the part of its slot for a whole window. */
export function partFrom(
  { noEffectAfter }: Tenure,
  { ms }: EscrowWindow,
  { leaseMs }: EscrowSettings,
  countMs: number,
): number {
  return noEffectAfter + (leaseMs + ms + countMs) * (1 + DRIFT);
}

/** @returns how many of its own calls may count in a window while it is cut off */
export function escrowAllowance(
  tenure: Tenure,
  { window, index }: { readonly window: EscrowWindow; readonly index: number },
  settings: EscrowSettings,
  { countMs, now }: { readonly countMs: number; readonly now: number },
): number {
  if (tenure.slot === undefined) return 0;
  const quota = tenure.quotas[index] ?? 0;
  if (window.isLong || now <= partFrom(tenure, window, settings, countMs)) return quota;
  return Math.max(quota, partOf(window.limit, tenure.slot, settings.replicas));
}

/** [12] The ages at which the script counts calls for the digest: tenths of each window. */
export function digestAges(windows: readonly EscrowWindow[]): number[] {
  const ages = windows.flatMap(({ ms }) => Array.from({ length: 10 }, (_, tenth) => (ms * (tenth + 1)) / 10));
  return [...new Set(ages.map(Math.ceil))].sort((a, b) => a - b);
}

/** [12] @returns the most permits that Redis may have granted to all replicas in `forMs`, limited by the shortest window */
export function mostGrantedIn(windows: readonly EscrowWindow[], forMs: number): number {
  const [shortest] = windows;
  if (shortest === undefined) return 0;
  const most = shortest.limit * (Math.ceil(forMs / shortest.ms) + 1);
  return Math.min(most, Math.max(...windows.map(({ limit }) => limit)));
}
