/** Which purse pays for a call. */
import { type Acquired, DAY_MS, type Permit, type PermitRequest } from "../limiter.ts";
import { dayOf } from "./own-purse.ts";
import { sendByOf } from "./purse-sizes.ts";
import type { Take } from "./redis-script.ts";
import { type Done, type Pending, TICK_MS, type Replica } from "./replica.ts";

/** A refusal while Redis is away: it may be back by then. */
export const AWAY_MS = 1_000;

function newId({ options: { process, origin } }: Replica, call: number, app: string): string {
  return `${process}.${origin}.${call}@${app}`;
}

/** What a request must leave in each window, the shortest first. */
function leaveOf({ windows, config }: Replica, { leave }: PermitRequest): number[] {
  return windows.map(({ ms }) => leave[config.windows.findIndex(({ windowMs }) => windowMs === ms)] ?? 0);
}

/** The part of it that the own purse must leave. Without the shared purse, that is in proportion. */
function leaveOfOwn(replica: Replica, request: PermitRequest, at: number): number[] {
  const left = replica.sharedLeft(at);
  const isShared = replica.isShared(at);
  return leaveOf(replica, request).map((leave, index) => {
    const { own = 0, limit = 1 } = replica.windows[index] ?? {};
    return isShared ? Math.max(0, leave - (left[index] ?? 0)) : Math.ceil((leave * own) / limit);
  });
}

/** A request for a permit of the shared purse. */
export function takeOf(replica: Replica, request: PermitRequest, ignoresLimits: boolean): Take {
  const at = replica.now();
  const { app, resource, cause, query } = request;
  const own = replica.ownLeft(at);
  return {
    id: newId(replica, ++replica.calls, app),
    app,
    resource,
    cause,
    query,
    ignoresLimits,
    perDay: replica.config.perDay.get(app),
    leave: leaveOf(replica, request).map((leave, index) => Math.max(0, leave - (own[index] ?? 0))),
    dayAtLeast: replica.apps.log.spent(DAY_MS, at, app),
  };
}

/** [2] @returns a permit of the own purse; nothing if the shared purse must be asked */
function ownPermit(replica: Replica, request: PermitRequest): Acquired | undefined {
  const { slot, windows, config, apps } = replica;
  const at = replica.now();
  if (slot.waitFor(windows, leaveOfOwn(replica, request, at), at) !== undefined) return undefined;
  const perDay = config.perDay.get(request.app);
  if (perDay !== undefined) {
    // The script counts the day of an app exactly.
    if (replica.isReachable) return undefined;
    const { spent, nextFreeAt } = dayOf(apps.log, request.app, perDay, at);
    if (spent >= perDay) return { kind: "wait", until: nextFreeAt, reason: "per-day" };
  }
  return { kind: "permit", permit: payFromOwn(replica, request) };
}

export function payFromOwn(replica: Replica, request: PermitRequest): Permit {
  const { slot, config, apps, due } = replica;
  const at = replica.now();
  const id = newId(replica, ++replica.calls, request.app);
  const latest = at + config.arrivalMs;
  slot.spend(id, request, { now: at, latest, hasDay: config.perDay.has(request.app) });
  apps.sent(id, request.app, latest);
  due.report = Math.min(due.report, at + TICK_MS);
  return { id, request, sendBy: Math.min(sendByOf(at, config.arrivalMs), slot.rightUntil()) };
}

/** When the own purse may pay for it. */
function ownFrom(replica: Replica, request: PermitRequest, at: number): number {
  return replica.slot.waitFor(replica.windows, leaveOfOwn(replica, request, at), at)?.until ?? at + 1;
}

/** Decides without the shared purse. @returns nothing if it must be asked */
export function withoutShared(replica: Replica, request: PermitRequest): Acquired | undefined {
  const own = ownPermit(replica, request);
  return own ?? (replica.isReachable && !replica.isWatching ? undefined : away(replica, request));
}

/** A permit of the own purse, or the refusal while Redis is away. */
export function orAway(replica: Replica, request: PermitRequest): Acquired {
  return ownPermit(replica, request) ?? away(replica, request);
}

function away(replica: Replica, request: PermitRequest): Acquired {
  const at = replica.now();
  const opensAt = replica.isReachable ? Math.max(at + 1, replica.opensAt) : at + AWAY_MS;
  const until = Math.min(ownFrom(replica, request, at), at + AWAY_MS, opensAt);
  return { kind: "wait", until, reason: "redis-away" };
}

/** Resolves the requests for permits of the shared purse with their results. */
export function answer(replica: Replica, taken: readonly Pending[], { results }: Done, at: number): void {
  const { apps, config } = replica;
  for (const [index, { take, request, resolve }] of taken.entries()) {
    const result = results[index];
    if (result === undefined)
      throw new Error("the script returned fewer results than permits were requested");
    if (result.isGranted === true) {
      apps.sent(take.id, take.app, at + replica.countMs());
      resolve({
        kind: "permit",
        permit: { id: take.id, request, sendBy: sendByOf(at, config.arrivalMs) },
      });
    } else {
      replica.leftAtRefusal = replica.left(at);
      const until = Math.max(at + 1, Math.min(ownFrom(replica, request, at), at + result.waitMs));
      resolve({ kind: "wait", until, reason: result.reason });
    }
  }
}
