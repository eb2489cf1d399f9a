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
 * | 6    | The script's time is never faster than the clocks of the replicas.                               | redis-time   |
 *
 * Only one command is under way at a time. It carries everything that there is to report and to request.
 */
import { StoreUnavailable } from "../../errors.ts";
import { type Clock, pause } from "../../process/clock.ts";
import type { OriginName, Outage, SendEnd } from "../../types.ts";
import { limitsText } from "../../usage/rate-window.ts";
import {
  type Acquired,
  DAY_MS,
  type Limiter,
  type LimiterConfig,
  type LimiterState,
  MOST_FREE_INSTANTS,
  type Permit,
  type PermitRequest,
  type WaitingApp,
  type WindowState,
} from "../limiter.ts";
import { createAppCounts } from "./app-counts.ts";
import { dayOf, freeInstants, keptMs, windowState } from "./own-purse.ts";
import {
  atLeast,
  DRIFT,
  pursesOf,
  type PurseSettings,
  type PurseWindow,
  ROUNDING_MS,
  sendByOf,
} from "./purse-sizes.ts";
import type { RedisPurse, Reply, RequestSettings, StoredSlot, Take } from "./redis-script.ts";
import { createRedisTime, SETTLE_MS, SILENT_MS } from "./redis-time.ts";
import { Slot } from "./slot.ts";

export interface SharedLimiterOptions extends PurseSettings {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly redis: RedisPurse;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
  /** [3] A replica without Redis goes on for this long. */
  readonly degradedForMs: number;
  /** A command that takes longer has failed. */
  readonly timeoutMs: number;
  readonly ledger: { readonly retentionMs: number; readonly maxRecords: number };
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** Redis refuses the commands of this limiter. An outage of Redis itself is reported elsewhere. */
  readonly outOfOrder: (outage: Outage) => void;
  readonly backInOrder: (what: string) => void;
}

export interface SharedLimiter extends Limiter {
  /** Redis may answer again: tries it now. */
  readonly check: () => void;
  /** The slots as Redis knows them. Rejects when Redis does not answer. */
  readonly replicas: () => Promise<readonly StoredSlot[]>;
}

/** A replica sends a command at least this often. */
const RENEW_MS = 400;
/** While calls wait, replicas exchange this often what waits. */
const STATE_MS = 250;
/** Time between two commands while Redis does not answer. */
const RETRY_MS = 100;
/** A refusal while Redis is away: it may be back by then. */
const AWAY_MS = 1_000;
/** How long ended calls wait for a common report. A permit is not free before a window has passed, so this costs little. */
const REPORT_MS = 50;
const TIDY_MS = 1_000;
/** How often the counts by app are read when nothing waits. */
const FOLLOW_MS = 2_000;

type Done = Extract<Reply, { kind: "done" }>;

interface Pending {
  readonly take: Take;
  readonly request: PermitRequest;
  readonly resolve: (acquired: Acquired) => void;
}

export function createSharedLimiter(options: SharedLimiterOptions): SharedLimiter {
  const { origin, clock, process, redis, timeoutMs, warn, outOfOrder, backInOrder } = options;
  const now = clock.monotonic;
  const time = createRedisTime(timeoutMs);
  const slackMs = 2 * timeoutMs + SILENT_MS / 10 + ROUNDING_MS;
  const slot = new Slot({ degradedForMs: options.degradedForMs, slackMs });
  const apps = createAppCounts(redis.follow);
  let config = options.config;
  let next: LimiterConfig | undefined;
  let windows = pursesOf(config.windows, options);
  /** The last reply to a command that could change something. */
  let last: (Done & { readonly askedAt: number }) | undefined;
  let seen = 0;
  let isWatching = true;
  let described: { readonly state: NonNullable<Done["state"]>; readonly at: number } | undefined;
  let pending: Pending[] = [];
  let waiting: readonly WaitingApp[] = [];
  let isWaitingReported = true;
  /** What was left in each window when a permit was last refused. */
  let leftAtRefusal: readonly number[] | undefined;
  let calls = 0;
  let commands = 0;
  let isReachable = true;
  let hasOpened = false;
  let isBusy = false;
  let isClosing = false;
  let isClosed = false;
  const due = { renew: now(), report: Number.POSITIVE_INFINITY, state: now(), tidy: now(), follow: now() };
  let opensAt = now() + SETTLE_MS;
  let cancelTimer = (): void => undefined;
  let changed = (): void => undefined;
  let onTurn = (): void => undefined;

  const countMs = (): number => config.arrivalMs + timeoutMs;
  const isShared = (at: number): boolean => isReachable && !isWatching && last !== undefined && at >= opensAt;
  const needsState = (): boolean => waiting.length > 0 || leftAtRefusal !== undefined;
  /** What the shared purse has left, as far as this process knows. */
  const sharedLeft = (index: number, at: number): number => (isShared(at) ? (last?.windows[index]?.[1] ?? 0) : 0);

  const purseName = (sizes: readonly PurseWindow[]): string =>
    `${options.replicas}:${sizes.map(({ ms, own }) => `${own}/${ms}`).join(",")}`;

  function settings(): RequestSettings {
    const { replicas, degradedForMs, ledger } = options;
    const shortMs = windows[0]?.ms ?? 0;
    return {
      windows,
      limits: limitsText(config.windows),
      replicas,
      purses: { name: purseName(windows), replicas, windows },
      drift: 3 * DRIFT,
      slackMs,
      silentMs: SILENT_MS,
      countMs: countMs(),
      rightMs: degradedForMs,
      holdMs: Math.ceil((degradedForMs + shortMs + countMs()) * (1 + 3 * DRIFT)) + 2 * slackMs,
      settleMs: SETTLE_MS,
      pollMs: STATE_MS,
      keepMs: atLeast(atLeast(atLeast(keptMs(config.windows)))) + countMs() + slackMs,
      ...ledger,
    };
  }

  // One command at a time.

  function wake(): void {
    if (!isBusy && !isClosed) void turn();
  }

  async function turn(): Promise<void> {
    cancelTimer();
    isBusy = true;
    const again = await oneTurn().catch((error: unknown) => {
      // The reply cannot be understood.
      failed(error);
      return RETRY_MS;
    });
    isBusy = false;
    onTurn();
    if (isClosed) return;
    if (again <= 0) return void turn();
    cancelTimer = clock.after(again, wake);
  }

  /** Sends the next command, if one is due. @returns milliseconds until the next turn */
  async function oneTurn(): Promise<number> {
    const at = now();
    const hasReport = isClosing || next !== undefined || pending.length > 0 || !isWaitingReported;
    const hasWork = !isReachable || (hasReport && !isWatching);
    const dueAt = isWatching ? due.renew : Math.min(due.renew, due.report, needsState() ? due.state : Number.POSITIVE_INFINITY);
    if (!hasWork && dueAt > at) return dueAt - at;
    return (await command()) ? 1 : RETRY_MS;
  }

  /** @returns whether Redis has answered */
  async function command(): Promise<boolean> {
    const askedAt = now();
    const isLeaving = isClosing || next !== undefined;
    const asked = time.ask(askedAt);
    if (asked.isWatching) for (const { request, resolve } of pending.splice(0)) resolve(ownPermit(request) ?? away(request));
    const taken = isLeaving || !isReachable ? [] : pending.splice(0);
    const announced = waiting;
    const wantsState = askedAt >= due.state;
    const isTidying = askedAt >= due.tidy;
    const { fields, confirm } = slot.report(askedAt);
    if (isLeaving) slot.stopUsing();
    due.report = Number.POSITIVE_INFINITY;
    commands++;
    let refusal: unknown;
    const reply = await within(
      redis
        .ask(
          {
            process,
            number: commands,
            seen,
            counts: last?.counts ?? {},
            countsMs: last === undefined ? 0 : askedAt - last.askedAt,
            ...asked,
            ...fields,
            isLeaving,
            takes: taken.map(({ take }) => take),
            waiting: waitingToReport(),
            wantsState,
            isTidying,
          },
          settings(),
        )
        .catch((error: unknown) => {
          refusal = error;
          return undefined;
        }),
    );
    const receivedAt = now();
    if (reply?.kind !== "done" || receivedAt > askedAt + timeoutMs) {
      giveUp(taken, receivedAt);
      failed(refusal ?? new Error(`no answer within ${timeoutMs} ms`));
      return false;
    }
    const wasShared = isShared(receivedAt);
    if (!isReachable) backInOrder(outage());
    [isReachable, isWatching, seen] = [true, reply.isWatching, reply.seq];
    time.heard(reply, askedAt, receivedAt);
    const isLost = slot.renewed(reply, askedAt, receivedAt);
    if (isLost) noticeLoss();
    opensAt = Math.max(time.settlesAt(), reply.closedMs > 0 ? receivedAt + reply.closedMs : 0);
    due.renew = isLost ? receivedAt : askedAt + RENEW_MS;
    if (opensAt > receivedAt) due.renew = Math.min(due.renew, opensAt);
    if (isWatching) {
      for (const { request, resolve } of taken) resolve(ownPermit(request) ?? away(request));
      return true;
    }
    confirm();
    last = { ...reply, askedAt };
    if (opensAt <= receivedAt) hasOpened = true;
    if (waiting === announced) isWaitingReported = true;
    if (wantsState) due.state = askedAt + STATE_MS;
    if (isTidying) {
      due.tidy = askedAt + TIDY_MS;
      slot.forget(askedAt - settings().keepMs);
    }
    if (slot.hasReports()) due.report = Math.min(due.report, receivedAt + REPORT_MS);
    if (reply.state !== undefined) described = { state: reply.state, at: receivedAt };
    answer(taken, reply, receivedAt);
    if (isLeaving) left();
    follow(receivedAt);
    notify(wasShared !== isShared(receivedAt) || wantsState, receivedAt);
    return true;
  }

  function within(reply: Promise<Reply | undefined>): Promise<Reply | undefined> {
    return new Promise((resolve) => {
      const cancel = clock.after(timeoutMs, () => resolve(undefined));
      void reply.then(resolve).finally(cancel);
    });
  }

  const outage = (): string => `the shared budget (${origin})`;

  function failed(error: unknown): void {
    // An outage of Redis has its own line in the log. The first failure may be the beginning of one, so it is not reported.
    if (!isReachable && last !== undefined && !(error instanceof StoreUnavailable)) {
      const cause = error instanceof Error ? error.message : String(error);
      outOfOrder({ what: outage(), cause, meanwhile: MEANWHILE });
    }
    const wasReachable = isReachable;
    isReachable = false;
    for (const { request, resolve } of pending.splice(0)) resolve(ownPermit(request) ?? away(request));
    if (wasReachable) changed();
  }

  /** Redis may have granted these permits. They are released. */
  function giveUp(taken: readonly Pending[], at: number): void {
    for (const { take, request, resolve } of taken) {
      slot.ended(take.id, take.app, { arrivedAt: at, status: "unsent", durationMs: 0 });
      resolve(ownPermit(request) ?? away(request));
    }
  }

  /** [5] */
  function noticeLoss(): void {
    apps.restart();
    // Both origins lose their data at once. One warning is enough.
    if (origin === "api")
      warn(
        "Redis has lost data. The shared purse of the budget is closed until the lost calls have left the shortest window. " +
          "The ledger has lost lines: reports count only what was sent since.",
        {},
      );
  }

  function waitingToReport(): (readonly [string, WaitingApp["priority"], number])[] | undefined {
    if (waiting.length === 0 && isWaitingReported) return undefined;
    return waiting.map(({ app, priority, count }) => [app, priority, count]);
  }

  function answer(taken: readonly Pending[], { results }: Done, at: number): void {
    for (const [index, { take, request, resolve }] of taken.entries()) {
      const result = results[index];
      if (result === undefined) throw new Error("the script returned fewer results than permits were requested");
      if (result.isGranted === true) {
        apps.sent(take.id, take.app, at + countMs());
        resolve({ kind: "permit", permit: { id: take.id, request, sendBy: sendByOf(at, config.arrivalMs) } });
      } else {
        leftAtRefusal = windows.map((window, i) => sharedLeft(i, at) + slot.left(window, at));
        const own = slot.waitFor(windows, leaveOfOwn(request, at), at)?.until ?? at + 1;
        resolve({ kind: "wait", until: Math.max(at + 1, Math.min(own, at + result.waitMs)), reason: result.reason });
      }
    }
  }

  /** Redis has confirmed that the slot is free. This process stops, or goes on with another configuration. */
  function left(): void {
    if (isClosing) isClosed = true;
    if (next === undefined) return;
    config = next;
    windows = pursesOf(config.windows, options);
    [next, last, described] = [undefined, last && { ...last, windows: [], counts: {} }, undefined];
  }

  function follow(at: number): void {
    if (at < due.follow && (waiting.length === 0 || at < due.follow - FOLLOW_MS + STATE_MS)) return;
    due.follow = at + FOLLOW_MS;
    void apps.follow(time.estimate(at) - at, at, keptMs(config.windows) + countMs());
  }

  /** Tells the queue when more is left than when a permit was last refused, or when the described state is new. */
  function notify(isNew: boolean, at: number): void {
    const isMore = leftAtRefusal?.some((before, i) => sharedLeft(i, at) + slot.left(windows[i] ?? NO_WINDOW, at) > before);
    if (isMore === true || waiting.length === 0) leftAtRefusal = undefined;
    if (isMore === true || isNew) changed();
  }

  // Permits.

  const newId = (app: string): string => `${process}.${origin}.${++calls}@${app}`;

  /** What a request must leave, in the order of `windows`. */
  const leaveOf = ({ leave }: PermitRequest): number[] =>
    windows.map(({ ms }) => leave[config.windows.findIndex(({ windowMs }) => windowMs === ms)] ?? 0);

  /** The part of it that the own purse must leave. Without the shared purse, that is in proportion. */
  function leaveOfOwn(request: PermitRequest, at: number): number[] {
    return leaveOf(request).map((leave, index) => {
      const { own, limit } = windows[index] ?? NO_WINDOW;
      return isShared(at) ? Math.max(0, leave - sharedLeft(index, at)) : Math.ceil((leave * own) / limit);
    });
  }

  function take(request: PermitRequest, ignoresLimits: boolean): Take {
    const at = now();
    const { app, resource, cause, query } = request;
    return {
      ...{ id: newId(app), app, resource, cause, query, ignoresLimits, perDay: config.perDay.get(app) },
      leave: leaveOf(request).map((leave, index) => Math.max(0, leave - slot.left(windows[index] ?? NO_WINDOW, at))),
      dayAtLeast: apps.log.spent(DAY_MS, at, app),
    };
  }

  /** [2] A permit of the own purse, if it may pay. */
  function ownPermit(request: PermitRequest): Acquired | undefined {
    const at = now();
    if (slot.waitFor(windows, leaveOfOwn(request, at), at) !== undefined) return undefined;
    const perDay = config.perDay.get(request.app);
    if (perDay !== undefined) {
      // The script counts the day of an app exactly.
      if (isReachable) return undefined;
      const { spent, nextFreeAt } = dayOf(apps.log, request.app, perDay, at);
      if (spent >= perDay) return { kind: "wait", until: nextFreeAt, reason: "per-day" };
    }
    return { kind: "permit", permit: payFromOwn(request, at) };
  }

  function payFromOwn(request: PermitRequest, at: number): Permit {
    const id = newId(request.app);
    const latest = at + config.arrivalMs;
    slot.spend(id, request, at, latest, config.perDay.has(request.app));
    apps.sent(id, request.app, latest);
    due.report = Math.min(due.report, at + RENEW_MS);
    return { id, request, sendBy: Math.min(sendByOf(at, config.arrivalMs), slot.rightUntil()) };
  }

  /** The refusal while Redis is away. */
  function away(request: PermitRequest): Acquired {
    const at = now();
    const own = slot.waitFor(windows, leaveOfOwn(request, at), at)?.until ?? at + 1;
    const next = Math.min(own, at + AWAY_MS, isReachable ? Math.max(at + 1, opensAt) : at + AWAY_MS);
    return { kind: "wait", until: next, reason: "redis-away" };
  }

  async function acquire(request: PermitRequest, ignoresLimits: boolean): Promise<Acquired> {
    if (isClosing) return { kind: "wait", until: now() + DAY_MS, reason: "redis-away" };
    const own = ownPermit(request);
    if (own !== undefined) return own;
    if (!isReachable || isWatching) return away(request);
    return new Promise((resolve) => {
      pending.push({ take: take(request, ignoresLimits), request, resolve });
      wake();
    });
  }

  function end(permit: Permit, ended: SendEnd | undefined): void {
    const at = now();
    const { id, request } = permit;
    const arrivedAt = ended === undefined ? at : at - (ended.durationMs - ended.arrivedAfterMs);
    slot.ended(id, request.app, { arrivedAt, status: ended?.status ?? "unsent", durationMs: ended?.durationMs ?? 0 });
    if (ended === undefined) apps.released(id, request.app);
    due.report = Math.min(due.report, ended === undefined ? at : at + REPORT_MS);
    wake();
    if (ended === undefined) changed();
  }

  // State.

  function windowOf(one: LimiterConfig["windows"][number], at: number): WindowState {
    const index = windows.findIndex(({ ms }) => ms === one.windowMs);
    const window = windows[index] ?? NO_WINDOW;
    const own = slot.left(window, at);
    const ownFreeAt = freeInstants(slot.purse, window.ms, at);
    const byApp = apps.byApp(one.windowMs, at);
    // Redis grants permits in a moment. Calls wait for it.
    if (isReachable && !isShared(at) && opensAt <= at + SETTLE_MS)
      return windowState(one, { spent: 0, remaining: one.limit, freeAt: [], byApp: new Map() });
    if (!isShared(at)) {
      const opening = isReachable ? Array.from({ length: MOST_FREE_INSTANTS }, () => opensAt) : [];
      const freeAt = firstOf([...ownFreeAt, ...opening]);
      return windowState(one, { spent: slot.purse.log.spent(window.ms, at), remaining: own, freeAt, byApp });
    }
    const [spent = 0, left = 0, reported = 0] = last?.windows[index] ?? [];
    return windowState(one, {
      spent: spent + reported + slot.unreportedSince(at - window.ms),
      remaining: own + left,
      freeAt: firstOf([...ownFreeAt, ...sharedFreeAt(index, spent, at)]),
      byApp,
    });
  }

  /** Permits that the last description does not know are free a window after it at the latest. */
  function sharedFreeAt(index: number, spent: number, at: number): number[] {
    const ms = windows[index]?.ms ?? 0;
    const freeIn = described?.state.freeIn[index] ?? [];
    const known = freeIn.map((inMs) => inMs + (described?.at ?? 0)).filter((instant) => instant > at);
    const missing = Math.min(spent, MOST_FREE_INSTANTS) - known.length;
    const later = Math.max(at + 1, (described?.at ?? at) + ms);
    return [...known, ...Array.from({ length: Math.max(0, missing) }, () => later)];
  }

  function state(): LimiterState {
    const at = now();
    const elsewhere = described !== undefined && at - described.at <= AWAY_MS ? described.state.waiting : [];
    return {
      mode: isShared(at) ? "shared" : hasOpened ? "degraded" : "joining",
      windows: config.windows.map((window) => windowOf(window, at)),
      today: new Map([...config.perDay].map(([app, perDay]) => [app, dayOf(apps.log, app, perDay, at)])),
      waitingElsewhere: elsewhere.flatMap((all) => all.map(([app, priority, count]) => ({ app, priority, count }))),
    };
  }

  async function close(): Promise<void> {
    isClosing = true;
    const giveUpAt = now() + 2 * timeoutMs;
    while (!isClosed && last !== undefined && now() < giveUpAt) {
      const turned = new Promise<void>((resolve) => (onTurn = resolve));
      wake();
      await turned;
      if (!isClosed) await pause(clock, RETRY_MS / 4);
    }
    isClosed = true;
    cancelTimer();
    const until = now() + DAY_MS;
    for (const { resolve } of pending.splice(0)) resolve({ kind: "wait", until, reason: "redis-away" });
  }

  wake();
  return {
    acquire: (request) => acquire(request, false),
    async acquireAnyway(request) {
      const acquired = await acquire(request, true);
      return acquired.kind === "permit" ? acquired.permit : payFromOwn(request, now());
    },
    complete: (permit, ended) => end(permit, ended),
    release: (permit) => end(permit, undefined),
    state,
    announce(announced) {
      if (announced.length === 0 && waiting.length === 0) return;
      waiting = announced;
      isWaitingReported = false;
      wake();
    },
    onChange(listener) {
      changed = listener;
    },
    configure(wanted) {
      // [3] Purses of another size need a new slot.
      const isSame = purseName(pursesOf(wanted.windows, options)) === purseName(windows);
      if (next === undefined && isSame) [config, windows] = [wanted, pursesOf(wanted.windows, options)];
      else next = wanted;
      wake();
    },
    check: wake,
    replicas: redis.slots,
    close,
  };
}

const NO_WINDOW: PurseWindow = { ms: 1, limit: 1, own: 0 };

const firstOf = (instants: number[]): number[] => instants.toSorted((a, b) => a - b).slice(0, MOST_FREE_INSTANTS);

const MEANWHILE =
  "This replica makes calls to the API within its own purse of the budget, and refuses the rest. Answers are still shared.";
