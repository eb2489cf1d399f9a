/**
 * The hard limits of all replicas together. Each limit L is divided: each of the R replicas (REPLICAS) has an own purse of
 * O calls, and the rest, S = L - R × O, is the shared purse.
 *
 * Proof. The calls of the shared purse never exceed S, because one atomic script grants them [1] and closes when it may have
 * forgotten some [5]. Each slot has one holder at a time, and its calls never exceed O, also across holders [2][3][4]. So in
 * every window there are at most S + R × O = L calls, whatever dies.
 *
 * | Rule | What                                                                                             | Where        |
 * |------|--------------------------------------------------------------------------------------------------|--------------|
 * | 1    | The script grants a permit only while fewer than S shared permits count in each window.          | lua: take    |
 * | 2    | A replica counts its own purse alone, in memory, and spends it first.                            | own-purse    |
 * | 3    | A slot has one holder. The holder stops `degradedForMs` after it sent the last confirmed renewal.| slot         |
 * |      | The slot is free when that time, the shortest window and the latest arrival have passed.         | lua: lapse   |
 * | 4    | A new holder takes over what counts in the purse, and the most that was not reported.            | lua: ownSlot |
 * | 5    | When data were lost, the shared purse is closed for the shortest window. Longer windows go on    | lua: lose    |
 * |      | from what a replica knew. Slots count as held.                                                   |              |
 * | 6    | The script's time is never faster than the monotonic clocks of the replicas.                     | lua: moveTime|
 *
 * Only one command is under way at a time. It carries everything that there is to report and to request.
 */
import { StoreUnavailable } from "../../errors.ts";
import { pause } from "../../process/clock.ts";
import type { SendEnd } from "../throttled.ts";
import { type Acquired, DAY_MS, type Limiter, type Permit, type PermitRequest } from "../limiter.ts";
import { keptMs } from "./own-purse.ts";
import { answer, orAway, payFromOwn, takeOf, withoutShared } from "./permits.ts";
import { pursesOf } from "./purse-sizes.ts";
import type { ReplicaSlot, Reply, Request } from "./redis-script.ts";
import { type Done, type Pending, Replica, type SharedLimiterOptions, TICK_MS } from "./replica.ts";
import { stateOf } from "./shared-state.ts";

export interface SharedLimiter extends Limiter {
  /** Redis may answer again: tries it now. */
  readonly check: () => void;
  /** The slots as Redis knows them. Rejects when Redis does not answer. */
  readonly replicas: () => Promise<readonly ReplicaSlot[]>;
}

/** Time between two commands while Redis does not answer. */
const RETRY_MS = 100;
/** How long ended calls wait for a common report. A permit is not free before a window has passed, so this costs little. */
const REPORT_MS = 50;
const TIDY_MS = 1_000;

export function createSharedLimiter(options: SharedLimiterOptions): SharedLimiter {
  const replica = new Replica(options);
  wake(replica);
  return {
    acquire: (request) => acquire(replica, request, false),
    async acquireAnyway(request) {
      const acquired = await acquire(replica, request, true);
      return acquired.kind === "permit" ? acquired.permit : payFromOwn(replica, request);
    },
    complete: (permit, ended) => end(replica, permit, ended),
    release: (permit) => end(replica, permit, undefined),
    state: () => stateOf(replica),
    announce(waiting) {
      if (waiting.length === 0 && replica.waiting.length === 0) return;
      Object.assign(replica, { waiting, isWaitingReported: false });
      wake(replica);
    },
    onChange: (listener) => void (replica.changed = listener),
    configure(config) {
      const windows = pursesOf(config.windows, options);
      // [3] Purses of another size need a new slot.
      const isSame = replica.purseName(windows) === replica.purseName(replica.windows);
      Object.assign(replica, replica.next === undefined && isSame ? { config, windows } : { next: config });
      wake(replica);
    },
    check: () => wake(replica),
    replicas: options.redis.slots,
    close: () => close(replica),
  };
}

async function acquire(replica: Replica, request: PermitRequest, ignoresLimits: boolean): Promise<Acquired> {
  if (replica.isClosing) return { kind: "wait", until: replica.now() + DAY_MS, reason: "redis-away" };
  const decided = withoutShared(replica, request);
  if (decided !== undefined) return decided;
  return new Promise((resolve) => {
    replica.pending.push({ take: takeOf(replica, request, ignoresLimits), request, resolve });
    wake(replica);
  });
}

/** A call has ended. Without `ended`, it was not sent. */
function end(replica: Replica, { id, request: { app } }: Permit, ended: SendEnd | undefined): void {
  const { slot, apps, due } = replica;
  const at = replica.now();
  const arrivedAt = ended === undefined ? at : at - (ended.durationMs - ended.arrivedAfterMs);
  slot.ended(id, app, { arrivedAt, status: ended?.status ?? "unsent", durationMs: ended?.durationMs ?? 0 });
  due.report = Math.min(due.report, ended === undefined ? at : at + REPORT_MS);
  wake(replica);
  if (ended !== undefined) return;
  apps.released(id, app);
  replica.changed();
}

// Turns: one command at a time.

/** Takes the next turn now, unless a command is under way. */
function wake(replica: Replica): void {
  if (!replica.isBusy && !replica.isClosed) void turn(replica);
}

async function turn(replica: Replica): Promise<void> {
  replica.cancelTimer();
  replica.isBusy = true;
  const again = await oneTurn(replica).catch((error: unknown) => {
    // The reply cannot be understood.
    failed(replica, error);
    return RETRY_MS;
  });
  replica.isBusy = false;
  replica.onTurn();
  if (!replica.isClosed) replica.cancelTimer = replica.options.clock.after(again, () => wake(replica));
}

const needsState = ({ waiting, leftAtRefusal }: Replica): boolean =>
  waiting.length > 0 || leftAtRefusal !== undefined;

/** Sends the next command, if one is due. @returns milliseconds until the next turn */
async function oneTurn(replica: Replica): Promise<number> {
  const { due, isWatching, isReachable } = replica;
  const at = replica.now();
  const hasReport =
    replica.isClosing ||
    replica.next !== undefined ||
    replica.pending.length > 0 ||
    !replica.isWaitingReported;
  const stateAt = needsState(replica) ? due.state : Number.POSITIVE_INFINITY;
  const dueAt = isWatching ? due.renew : Math.min(due.renew, due.report, stateAt);
  if (isReachable && (isWatching || !hasReport) && dueAt > at) return dueAt - at;
  return (await command(replica)) ? 1 : RETRY_MS;
}

/** @returns whether Redis has answered */
async function command(replica: Replica): Promise<boolean> {
  const { slot, due, waiting } = replica;
  const askedAt = replica.now();
  const isLeaving = replica.isClosing || replica.next !== undefined;
  const wantsState = askedAt >= due.state;
  const isTidying = askedAt >= due.tidy;
  const taken = isLeaving || !replica.isReachable ? [] : replica.pending.splice(0);
  const { fields, confirm } = slot.report(askedAt);
  // The slot may be free from now on, also when the reply is lost.
  if (isLeaving) slot.stopUsing();
  due.report = Number.POSITIVE_INFINITY;
  const takes = taken.map(({ take }) => take);
  const reply = await ask(replica, askedAt, { ...fields, isLeaving, takes, wantsState, isTidying });
  if (reply === undefined) {
    giveUp(replica, taken);
    return false;
  }
  const at = replica.now();
  const wasShared = replica.isShared(at);
  heard(replica, reply, askedAt);
  if (reply.isWatching) {
    refuseAll(replica, taken);
    return true;
  }
  confirm();
  replica.last = { ...reply, askedAt };
  if (replica.opensAt <= at) replica.hasOpened = true;
  if (replica.waiting === waiting) replica.isWaitingReported = true;
  if (wantsState) due.state = askedAt + TICK_MS;
  if (isTidying) tidy(replica, askedAt);
  if (slot.hasReports()) due.report = Math.min(due.report, at + REPORT_MS);
  if (reply.state !== undefined) replica.described = { state: reply.state, at };
  answer(replica, taken, reply, at);
  if (isLeaving) left(replica);
  follow(replica, at);
  notify(replica, wasShared !== replica.isShared(at) || wantsState, at);
  return true;
}

/** Sends a command. @returns nothing when there was no reply in time. A later reply is ignored */
async function ask(
  replica: Replica,
  askedAt: number,
  fields: Pick<
    Request,
    "slot" | "debts" | "calls" | "isFull" | "ended" | "isLeaving" | "takes" | "wantsState" | "isTidying"
  >,
): Promise<Done | undefined> {
  const { options, last, seen } = replica;
  const { clock, process, redis, timeoutMs } = options;
  let refusal: unknown;
  const known = {
    seen,
    counts: last?.counts ?? {},
    countsMs: last === undefined ? 0 : askedAt - last.askedAt,
    knownPurses: last?.purses,
    ...replica.time.ask(askedAt),
    wall: clock.now(),
  };
  const request = {
    process,
    number: ++replica.commands,
    ...known,
    ...fields,
    waiting: waitingToReport(replica),
  };
  const reply = await new Promise<Reply | undefined>((resolve) => {
    const cancel = clock.after(timeoutMs, () => resolve(undefined));
    void redis
      .ask(request, replica.settings())
      .catch((error: unknown) => {
        refusal = error;
        return undefined;
      })
      .then(resolve)
      .finally(cancel);
  });
  if (reply?.kind === "done" && replica.now() <= askedAt + timeoutMs) return reply;
  failed(replica, refusal ?? new Error(`no answer within ${timeoutMs} ms`));
  return undefined;
}

function waitingToReport({ waiting, isWaitingReported }: Replica): Request["waiting"] {
  if (waiting.length === 0 && isWaitingReported) return undefined;
  return waiting.map(({ app, priority, count }) => [app, priority, count]);
}

/** Takes over what every reply says. */
function heard(replica: Replica, reply: Done, askedAt: number): void {
  const { time, slot, due, options } = replica;
  const at = replica.now();
  if (!replica.isReachable) options.backInOrder(outageOf(replica));
  Object.assign(replica, { isReachable: true, isWatching: reply.isWatching, seen: reply.seq });
  time.heard(reply, at);
  const isLost = slot.renewed(reply, askedAt, at);
  if (isLost) noticeLoss(replica);
  noticeOldVersion(replica, reply);
  replica.opensAt = reply.closedMs > 0 ? at + reply.closedMs : 0;
  due.renew = isLost ? at : askedAt + TICK_MS;
  if (replica.opensAt > at) due.renew = Math.min(due.renew, replica.opensAt);
}

/** The name in the log of an outage that only the budget has. */
const outageOf = ({ options }: Replica): string => `the shared budget (${options.origin})`;
const MEANWHILE =
  "This replica makes calls to the API within its own purse of the budget, and refuses the rest. Answers are still shared.";

function failed(replica: Replica, error: unknown): void {
  const wasReachable = replica.isReachable;
  // An outage of Redis has its own line in the log. The first failure may be the beginning of one, so it is not reported.
  if (!wasReachable && replica.last !== undefined && !(error instanceof StoreUnavailable)) {
    const cause = error instanceof Error ? error.message : String(error);
    replica.options.outOfOrder({ what: outageOf(replica), cause, meanwhile: MEANWHILE });
  }
  replica.isReachable = false;
  refuseAll(replica, replica.pending.splice(0));
  if (wasReachable) replica.changed();
}

/** Redis may have granted these permits. They are released. */
function giveUp(replica: Replica, taken: readonly Pending[]): void {
  const arrivedAt = replica.now();
  for (const { take } of taken)
    replica.slot.ended(take.id, take.app, { arrivedAt, status: "unsent", durationMs: 0 });
  refuseAll(replica, taken);
}

/** Only the own purse may pay. */
function refuseAll(replica: Replica, pending: readonly Pending[]): void {
  for (const { request, resolve } of pending) resolve(orAway(replica, request));
}

/** [5] */
function noticeLoss({ apps, options: { origin, warn } }: Replica): void {
  apps.restart();
  // Both origins lose their data at once. One warning is enough.
  if (origin !== "api") return;
  warn(
    "Redis has lost data. The shared purse of the budget is closed until the lost calls have left the shortest window. " +
      "The ledger has lost lines: reports count only what was sent since.",
    {},
  );
}

function noticeOldVersion(replica: Replica, { isOldVersion = false }: Done): void {
  const { warn, origin } = replica.options;
  if (isOldVersion && !replica.isOldVersionKnown)
    warn(
      "Redis has the budget of version 0.2. Stop all replicas of 0.2: the shared purse is closed while they run.",
      {
        origin,
      },
    );
  replica.isOldVersionKnown = isOldVersion;
}

function tidy(replica: Replica, at: number): void {
  replica.due.tidy = at + TIDY_MS;
  replica.slot.forget(at - replica.keptMs());
}

/** Reads on in the ledger: which apps sent how many calls. */
function follow({ apps, due, config, time }: Replica, at: number): void {
  if (at < due.follow) return;
  due.follow = at + TICK_MS;
  void apps.follow((time.at(at) ?? at) - at, at, keptMs(config.windows));
}

/** Tells the queue when more is left than when a permit was last refused, or when the described state is new. */
function notify(replica: Replica, isNew: boolean, at: number): void {
  const before = replica.leftAtRefusal;
  const isMore = before !== undefined && replica.left(at).some((left, index) => left > (before[index] ?? 0));
  if (isMore || replica.waiting.length === 0) replica.leftAtRefusal = undefined;
  if (isMore || isNew) replica.changed();
}

/** Redis has confirmed that the slot is free. This process stops, or goes on with another configuration. */
function left(replica: Replica): void {
  const { next, options, isClosing } = replica;
  if (isClosing) replica.isClosed = true;
  if (next === undefined) return;
  Object.assign(replica, { config: next, windows: pursesOf(next.windows, options), next: undefined });
  Object.assign(replica, { last: replica.last && { ...replica.last, windows: [] }, described: undefined });
}

async function close(replica: Replica): Promise<void> {
  const { clock, timeoutMs } = replica.options;
  replica.isClosing = true;
  const giveUpAt = replica.now() + 2 * timeoutMs;
  while (!replica.isClosed && replica.last !== undefined && replica.now() < giveUpAt) {
    const turned = new Promise<void>((resolve) => (replica.onTurn = resolve));
    wake(replica);
    await turned;
    await pause(clock, replica.isClosed ? 0 : RETRY_MS / 4);
  }
  replica.isClosed = true;
  replica.cancelTimer();
  const until = replica.now() + DAY_MS;
  for (const { resolve } of replica.pending.splice(0)) resolve({ kind: "wait", until, reason: "redis-away" });
}
