/** The permits of a replica that shares limits: asked for, decided by the escrow while Redis is away, and shown. */
import { aloneUntil, allowanceAlone, DRIFT, partFrom, sendByOf } from "./escrow.ts";
import type { Acquired, LimiterState, Permit, PermitRequest } from "./limiter.ts";
import type { Take } from "./redis-limiter.ts";
import { countMs, DAY_MS, type Side, STATE_MS, tenureOf } from "./shared-side.ts";

export function takeOf(side: Side, request: PermitRequest, isAnyway: boolean): Take {
  const { app, resource, cause, query, leave } = request;
  const { process, origin } = side.options;
  side.calls++;
  return {
    resource,
    cause,
    query,
    app,
    isAnyway,
    id: `${process}.${origin}.${side.calls}@${app}`,
    // The script has the windows in another order.
    leave: side.windows.map(({ ms }) => leave[side.config.windows.findIndex((w) => w.windowMs === ms)] ?? 0),
    perDay: side.config.perDay.get(app),
  };
}

export function permitOf(side: Side, id: string, request: PermitRequest, now: number): Permit {
  return { id, request, sendBy: sendByOf(now, side.config.arrivalMs) };
}

/** A permit that Redis did not grant. Its id is new: a command that failed may still grant the one that it asked for. */
export function alone(side: Side, request: PermitRequest): Permit {
  const now = side.options.clock.monotonic();
  const take = takeOf(side, request, true);
  side.own.enter(take, { now, latest: now + side.config.arrivalMs, wasTold: false });
  return permitOf(side, take.id, request, now);
}

export function decideAlone(side: Side, take: Take, request: PermitRequest): Acquired {
  const { own, windows, options, slot } = side;
  const now = options.clock.monotonic();
  if (take.isAnyway) return { kind: "permit", permit: alone(side, request) };
  if (slot === undefined) return { kind: "wait", until: now + STATE_MS, reason: "joining" };
  const tenure = tenureOf(side);
  if (now > aloneUntil(tenure, options))
    return { kind: "wait", until: now + STATE_MS, reason: "degraded-too-long" };
  let until = now;
  let isReserved = true;
  for (const [index, window] of windows.entries()) {
    const allowed = allowanceAlone(tenure, { window, index }, options, { countMs: countMs(side), now });
    // Of what is to be left, this replica leaves its part.
    const leave = Math.ceil((take.leave[index] ?? 0) / options.replicas);
    const ms = Math.ceil(window.ms * (1 + DRIFT));
    const spent = own.log.spent(ms, now);
    if (spent + 1 + leave <= allowed) continue;
    if (spent >= allowed) isReserved = false;
    const freeAt = own.log.freeAt(ms, now, { count: spent + 1 + leave - allowed });
    const from = window.isLong ? undefined : partFrom(tenure, window, options, countMs(side));
    const next = [freeAt, from === undefined || from < now ? undefined : from + 1].filter(
      (at) => at !== undefined,
    );
    until = Math.max(until, next.length > 0 ? Math.ceil(Math.min(...next)) : now + STATE_MS);
  }
  const over = overDay(side, take, now);
  if (over !== undefined) return { kind: "wait", until: over, reason: "per-day" };
  if (until > now) return { kind: "wait", until, reason: isReserved ? "reserved" : "budget" };
  return { kind: "permit", permit: alone(side, request) };
}

/** An app's day, as Redis last told it, and what was sent here: too much rather than too little. */
function overDay({ own, described }: Side, { app, perDay }: Take, now: number): number | undefined {
  if (perDay === undefined) return undefined;
  const told = described?.today.find(([name]) => name === app)?.[1] ?? 0;
  return told + own.log.spent(DAY_MS, now, app) < perDay ? undefined : now + STATE_MS;
}

export function stateOf(side: Side): LimiterState {
  const now = side.options.clock.monotonic();
  const { described, describedAt, config, isJoined } = side;
  const isAlone = side.isCutOff && side.hasEverJoined;
  const isOpen = isJoined && now >= side.opensAt;
  const mode = isOpen ? "shared" : isAlone ? "degraded" : "joining";
  const sinceMs = now - describedAt;
  return {
    mode,
    windows: config.windows.map((window) => ({ ...window, ...windowState(side, window.windowMs, now) })),
    today: new Map(
      (described?.today ?? []).map(([app, spent, inMs]) => [app, { spent, nextFreeAt: describedAt + inMs }]),
    ),
    waitingElsewhere:
      sinceMs > 1_000
        ? []
        : (described?.waiting ?? []).flatMap((apps) =>
            apps.map(([app, priority, count]) => ({ app, priority, count })),
          ),
    ageMs: Math.max(0, Math.min(sinceMs, now - (side.last?.heardAt ?? 0))),
  };
}

function windowState(
  side: Side,
  windowMs: number,
  now: number,
): Omit<LimiterState["windows"][number], "name" | "limit" | "windowMs"> {
  const { windows, described, describedAt, own, counts, options } = side;
  const index = windows.findIndex(({ ms }) => ms === windowMs);
  const window = windows[index];
  if (window === undefined) return { spent: 0, reserved: 0, remaining: 0, freeAt: [], byApp: new Map() };
  if (now < side.opensAt && !(side.isCutOff && side.hasEverJoined)) {
    // It can spend in a moment. Nothing is known to be spent, so calls wait for that moment.
    const { limit } = window;
    return { spent: 0, reserved: 0, remaining: limit, freeAt: [], byApp: new Map() };
  }
  if (side.isCutOff || counts.length === 0) {
    const spent = own.log.spent(windowMs, now);
    const isOver = side.slot === undefined || now > aloneUntil(tenureOf(side), options);
    const allowed = isOver
      ? 0
      : allowanceAlone(tenureOf(side), { window, index }, options, { countMs: countMs(side), now });
    return {
      spent,
      reserved: Math.max(0, window.limit - allowed),
      remaining: Math.max(0, allowed - spent),
      // Where more count than it may send by itself, the first that leave the window free nothing.
      freeAt: own.log.freeInstants(windowMs, now, MOST_INSTANTS).slice(Math.max(0, spent - allowed)),
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
    byApp: byAppSince(byApp, side),
  };
}

/** Instants that a replica knows of, the earliest first. */
const MOST_INSTANTS = 100;

/** When permits are free again. Calls that count and are not described yet were sent since. */
function freeInstants(
  freeIn: readonly number[],
  { spent, describedAt, windowMs }: Record<"spent" | "describedAt" | "windowMs", number>,
  now: number,
): number[] {
  const known = freeIn.map((inMs) => describedAt + inMs).filter((at) => at > now);
  const isDescribed = known.length >= Math.min(spent, MOST_INSTANTS);
  if (isDescribed || freeIn.length >= MOST_INSTANTS) return known;
  const since = Math.max(describedAt + windowMs, now + 1);
  const at = Number.isFinite(since) ? since : now + windowMs;
  return [...known, ...Array.from({ length: Math.min(spent, MOST_INSTANTS) - known.length }, () => at)];
}

/** With the permits that this replica has got since. */
function byAppSince(told: readonly (readonly [string, number])[], { granted }: Side): Map<string, number> {
  const counts = new Map(told);
  for (const [app, count] of granted) counts.set(app, (counts.get(app) ?? 0) + count);
  return counts;
}
