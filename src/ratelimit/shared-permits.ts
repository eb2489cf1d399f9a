/** The permits of a replica that shares limits: requests, decisions by the escrow, and the state that it shows. */
import { escrowUntil, escrowAllowance, DRIFT, type EscrowWindow, partFrom, sendByOf } from "./escrow.ts";
import {
  type Acquired,
  DAY_MS,
  type LimiterState,
  MOST_FREE_INSTANTS,
  type Permit,
  type PermitRequest,
} from "./limiter.ts";
import type { Take } from "./redis-limiter.ts";
import { countMs, type Replica, STATE_MS } from "./shared-replica.ts";

export function takeOf(replica: Replica, request: PermitRequest, ignoresLimits: boolean): Take {
  const { app, resource, cause, query, leave } = request;
  const { process, origin } = replica.options;
  replica.calls++;
  return {
    resource,
    cause,
    query,
    app,
    ignoresLimits,
    id: `${process}.${origin}.${replica.calls}@${app}`,
    // The script has the windows in order of length.
    leave: replica.windows.map(
      ({ ms }) => leave[replica.config.windows.findIndex((w) => w.windowMs === ms)] ?? 0,
    ),
    perDay: replica.config.perDay.get(app),
  };
}

export function permitOf(replica: Replica, id: string, request: PermitRequest, now: number): Permit {
  return { id, request, sendBy: sendByOf(now, replica.config.arrivalMs) };
}

/** A permit that Redis did not grant. It has a new id, because a command that failed may still grant the requested one. */
export function permitWithoutRedis(replica: Replica, request: PermitRequest): Permit {
  const now = replica.options.clock.monotonic();
  const take = takeOf(replica, request, true);
  replica.own.enter(take, { now, latest: now + replica.config.arrivalMs, isKnown: false });
  return permitOf(replica, take.id, request, now);
}

/** Decides by the escrow, while Redis does not answer. */
export function decideByEscrow(replica: Replica, take: Take, request: PermitRequest): Acquired {
  const { own, windows, options, slot } = replica;
  const now = options.clock.monotonic();
  if (take.ignoresLimits) return { kind: "permit", permit: permitWithoutRedis(replica, request) };
  if (slot === undefined) return { kind: "wait", until: now + STATE_MS, reason: "redis-away" };
  if (now > escrowUntil(replica, options))
    return { kind: "wait", until: now + STATE_MS, reason: "redis-away" };
  let until = now;
  let isReserved = true;
  for (const [index, window] of windows.entries()) {
    const allowed = allowedByEscrow(replica, window, now);
    // This replica leaves its part of what all replicas together must leave.
    const leave = Math.ceil((take.leave[index] ?? 0) / options.replicas);
    const ms = Math.ceil(window.ms * (1 + DRIFT));
    const spent = own.log.spent(ms, now);
    if (spent + 1 + leave <= allowed) continue;
    if (spent >= allowed) isReserved = false;
    const freeAt = own.log.freeAt(ms, now, { count: spent + 1 + leave - allowed });
    const from = window.isLong ? undefined : partFrom(replica, window, options, countMs(replica));
    const next = [freeAt, from === undefined || from < now ? undefined : from + 1].filter(
      (at) => at !== undefined,
    );
    until = Math.max(until, next.length > 0 ? Math.ceil(Math.min(...next)) : now + STATE_MS);
  }
  const over = overDay(replica, take, now);
  if (over !== undefined) return { kind: "wait", until: over, reason: "per-day" };
  if (until > now) return { kind: "wait", until, reason: isReserved ? "reserved" : "budget" };
  return { kind: "permit", permit: permitWithoutRedis(replica, request) };
}

function allowedByEscrow(replica: Replica, window: EscrowWindow, now: number): number {
  const index = replica.windows.indexOf(window);
  return escrowAllowance(replica, { window, index }, replica.options, {
    countMs: countMs(replica),
    now,
  });
}

/** The app's calls of the day: those that Redis last reported and all that were sent here. Some count twice. */
function overDay({ own, described }: Replica, { app, perDay }: Take, now: number): number | undefined {
  if (perDay === undefined) return undefined;
  const reported = described?.today.find(([name]) => name === app)?.[1] ?? 0;
  return reported + own.log.spent(DAY_MS, now, app) < perDay ? undefined : now + STATE_MS;
}

const isDegraded = ({ isCutOff, hasEverJoined }: Replica): boolean => isCutOff && hasEverJoined;

export function stateOf(replica: Replica): LimiterState {
  const now = replica.options.clock.monotonic();
  const { described, describedAt, config, isJoined } = replica;
  const isOpen = isJoined && now >= replica.opensAt;
  const mode = isOpen ? "shared" : isDegraded(replica) ? "degraded" : "joining";
  return {
    mode,
    windows: config.windows.map((window) => ({ ...window, ...windowState(replica, window.windowMs, now) })),
    today: new Map(
      (described?.today ?? []).map(([app, spent, inMs]) => [app, { spent, nextFreeAt: describedAt + inMs }]),
    ),
    waitingElsewhere:
      now - describedAt > 1_000
        ? []
        : (described?.waiting ?? []).flatMap((apps) =>
            apps.map(([app, priority, count]) => ({ app, priority, count })),
          ),
  };
}

function windowState(
  replica: Replica,
  windowMs: number,
  now: number,
): Omit<LimiterState["windows"][number], "name" | "limit" | "windowMs"> {
  const { windows, described, describedAt, own, counts, options } = replica;
  const index = windows.findIndex(({ ms }) => ms === windowMs);
  const window = windows[index];
  if (window === undefined) return { spent: 0, reserved: 0, remaining: 0, freeAt: [], byApp: new Map() };
  // Redis grants permits in a moment. Calls wait for that moment, because nothing counts as spent until then.
  if (now < replica.opensAt && !isDegraded(replica))
    return { spent: 0, reserved: 0, remaining: window.limit, freeAt: [], byApp: new Map() };
  if (replica.isCutOff || counts.length === 0) {
    const spent = own.log.spent(windowMs, now);
    const isOver = replica.slot === undefined || now > escrowUntil(replica, options);
    const allowed = isOver ? 0 : allowedByEscrow(replica, window, now);
    return {
      spent,
      reserved: Math.max(0, window.limit - allowed),
      remaining: Math.max(0, allowed - spent),
      // When more calls count than are allowed, the first calls that leave the window free no permit.
      freeAt: own.log.freeInstants(windowMs, now, MOST_FREE_INSTANTS).slice(Math.max(0, spent - allowed)),
      byApp: own.log.byApp(windowMs, now),
    };
  }
  const [spent = 0, reserved = 0] = counts[index] ?? [];
  const { byApp = [], freeIn = [] } = described?.windows[index] ?? {};
  return {
    spent,
    reserved,
    remaining: Math.max(0, window.limit - spent - reserved),
    freeAt: freeInstants(freeIn, { spent, describedAt, windowMs }, now),
    byApp: byAppSince(byApp, spent, replica),
  };
}

/** When permits are free again. Calls that count but are not described were sent since `describedAt`. */
function freeInstants(
  freeIn: readonly number[],
  { spent, describedAt, windowMs }: Record<"spent" | "describedAt" | "windowMs", number>,
  now: number,
): number[] {
  const known = freeIn.map((inMs) => describedAt + inMs).filter((at) => at > now);
  const isDescribed = known.length >= Math.min(spent, MOST_FREE_INSTANTS);
  if (isDescribed || freeIn.length >= MOST_FREE_INSTANTS) return known;
  const since = Math.max(describedAt + windowMs, now + 1);
  const at = Number.isFinite(since) ? since : now + windowMs;
  return [...known, ...Array.from({ length: Math.min(spent, MOST_FREE_INSTANTS) - known.length }, () => at)];
}

/**
 * Adds the permits that replicas got since the state was described. Redis reports at once how many calls count, but not of
 * which apps. So permits of other replicas are attributed to the apps that wait there, in proportion. Otherwise all replicas
 * could take the whole share of an app at the same time.
 * @param spent how many calls count now
 */
function byAppSince(
  counted: readonly (readonly [string, number])[],
  spent: number,
  { granted, described }: Replica,
): Map<string, number> {
  const counts = new Map(counted);
  const add = (app: string, count: number): void => void counts.set(app, (counts.get(app) ?? 0) + count);
  for (const [app, count] of granted) add(app, count);
  const unknown = spent - counts.values().reduce((sum, count) => sum + count, 0);
  const waiting = (described?.waiting ?? []).flat();
  const all = waiting.reduce((sum, [, , count]) => sum + count, 0);
  if (unknown > 0) for (const [app, , count] of waiting) add(app, Math.floor((unknown * count) / all));
  return counts;
}
