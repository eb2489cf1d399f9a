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
 * | 2    | A replica counts its own purse alone, in memory, and spends it first.                            | acquire      |
 * | 3    | A slot has one holder. The holder stops `degradedForMs` after it sent the last confirmed renewal.| own-purse    |
 * |      | The slot is free when that time, the shortest window and the latest arrival have passed.         | lua: ownSlot |
 * | 4    | A new holder takes over what counts in the purse, and the most that was not reported.            | lua: ownSlot |
 * | 5    | When data were lost, the shared purse is closed for the shortest window. Longer windows go on    | lua: lose    |
 * |      | from what a replica knew. Slots count as held.                                                   |              |
 * | 6    | The script's time is never faster than the monotonic clocks of the replicas.                     | lua: moveTime|
 *
 * Only one command is under way at a time. It carries everything that there is to report and to request.
 */
import { RedisRefusal, StoreUnavailable } from "../../errors.ts";
import type { OriginName } from "../../interface/resources.ts";
import { type Clock, pause } from "../../process/clock.ts";
import type { Observer } from "../../telemetry/events.ts";
import {
  type Acquired,
  type Limiter,
  type LimiterConfig,
  type News,
  type Permit,
  type PermitRequest,
  type Told,
  type WindowState,
} from "../limiter.ts";
import { AppCounts } from "./app-counts.ts";
import {
  atLeast,
  DRIFT,
  purseName,
  pursesOf,
  type PurseWindow,
  SCRIPT_DRIFT,
  sendByOf,
} from "./purse-sizes.ts";
import {
  type Heard,
  JOIN_MS,
  type RedisPurse,
  type Reply,
  type ScriptOptions,
  scriptSettings,
  TICK_MS,
} from "./redis-script.ts";
import { OwnPurse } from "./own-purse.ts";
import { keptMs } from "./window-log.ts";

/** `outOfOrder`: Redis refuses the commands of this limiter. An outage of Redis itself is reported elsewhere. */
export interface SharedLimiterOptions
  extends ScriptOptions, Pick<Observer, "warn" | "outOfOrder" | "backInOrder"> {
  readonly origin: OriginName;
  readonly config: LimiterConfig;
  readonly redis: Pick<RedisPurse, "ask" | "ledger">;
  readonly clock: Clock;
  /** A name that no other process has or had. */
  readonly process: string;
  /** Redis has lost data of the budget. */
  readonly dataLost: () => void;
}

type Result = Reply["results"][number];

/** A request for a permit of the shared purse. If `isOwn`, the script only enters it in the day of its app. */
interface Pending {
  readonly isOwn: boolean;
  /** It counts only if the script grants it. */
  readonly permit: Permit;
  readonly resolve: (acquired: Acquired) => void;
}

/** Time between two commands while Redis does not answer. */
const RETRY_MS = 100;
/** A process that stops waits at most this long until Redis has confirmed that its slot is free. */
const LEAVE_MS = 3_000;
const MEANWHILE =
  "This process spends at most its own part of the budget (unless budget.mode is observe). Check Redis' memory, and the " +
  "access rules of its user.";

const DATA_LOST =
  "Redis has lost data. The shared purse of the budget is closed until the lost calls have left the shortest window. " +
  "The ledger has lost lines: reports count only what was sent since.";

export class SharedLimiter implements Limiter {
  readonly #options: SharedLimiterOptions;
  readonly #own: OwnPurse;
  readonly #apps: AppCounts;
  #config: LimiterConfig;
  #windows: readonly PurseWindow[];
  #pending: Pending[] = [];
  #calls = 0;
  /** What this replica tells the others, and what they told last. */
  #news: readonly News[] = [];
  #newsElsewhere: Told = { at: 0, news: [] };
  /** The last reply. */
  #heard: Heard | undefined;
  /** Redis has let this process work. */
  #hasJoined = false;
  /** [6] The script's time when the monotonic clock of this process was at zero, if both always ran as they do now. */
  #anchor: number | undefined;
  #isReachable = true;
  #commands = 0;
  /** The latest instant for the next command. */
  #tickAt = Number.NEGATIVE_INFINITY;
  #isClosing = false;
  /** Aborted when this process has stopped. */
  readonly #closed = new AbortController();
  /** Ends the pause before the next command. */
  #wake = (): void => undefined;
  /** The listener of the queue. */
  #changed = (): void => undefined;

  constructor(options: SharedLimiterOptions) {
    this.#options = options;
    this.#own = new OwnPurse(options.degradedForMs);
    this.#apps = new AppCounts(options.redis);
    this.#config = options.config;
    this.#windows = pursesOf(options.config.windows, options);
    void this.#talk();
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  // Which purse pays.

  readonly acquire: Limiter["acquire"] = async (request) => {
    const at = this.#now();
    if (!this.#isShared(at) || this.#isClosing) return this.#decideAlone(request);
    const mayPay = this.#mayPay(at);
    // [2] But the script counts the day of an app exactly.
    if (mayPay && !this.#config.perDay.has(request.app)) return this.#payFromOwn(request);
    const id = this.#newId(request);
    const isOwn = mayPay && !this.#pending.some((other) => other.isOwn);
    return new Promise((resolve) => {
      this.#pending.push({ permit: { id, request }, isOwn, resolve });
      this.#wake();
    });
  };

  /** Only the own purse may pay. */
  #decideAlone(request: PermitRequest): Acquired {
    const mayPay = request.ignoresLimits === true || this.#mayPay(this.#now());
    return mayPay ? this.#payFromOwn(request) : { kind: "wait", reason: "redis-away" };
  }

  /** Whether the own purse may pay for a call. */
  #mayPay(at: number): boolean {
    return this.#windows.every((window) => this.#own.left(window, at) > 0);
  }

  #payFromOwn(request: PermitRequest, id = this.#newId(request)): Acquired {
    const { app, ignoresLimits = false } = request;
    const { arrivalMs, perDay } = this.#config;
    const at = this.#now();
    const latest = at + arrivalMs;
    const slot = this.#own.spend({ ...request, id, at: latest, arrivalMs, perDay: perDay.get(app) });
    this.#apps.enter(id, latest, app);
    const rightUntil = ignoresLimits ? Number.POSITIVE_INFINITY : this.#own.rightUntil();
    const sendBy = Math.min(sendByOf(at, arrivalMs), rightUntil);
    return { kind: "permit", permit: { id, request, slot, sendBy } };
  }

  #newId({ app }: PermitRequest): string {
    const { process, origin } = this.#options;
    return `${process}.${origin}.${++this.#calls}@${app}`;
  }

  /** What the script has decided. */
  #outcome({ permit, isOwn }: Pending, result: Result = "redis-away", at: number): Acquired {
    if (result !== "granted") return { kind: "wait", reason: result };
    const { id, request } = permit;
    if (isOwn && this.#mayPay(this.#now())) return this.#payFromOwn(request, id);
    if (isOwn) this.#giveBack(permit);
    if (isOwn) return { kind: "wait", reason: "budget" };
    const { arrivalMs } = this.#config;
    this.#apps.enter(id, at + arrivalMs + this.#options.timeout.ms(), request.app);
    return { kind: "permit", permit: { id, request, sendBy: sendByOf(at, arrivalMs) } };
  }

  readonly complete: Limiter["complete"] = (permit, { status, durationMs, arrivedAfterMs }) => {
    const arrivedAt = this.#now() - (durationMs - arrivedAfterMs);
    this.#own.ended(permit, { status, durationMs, arrivedAt });
  };

  readonly release: Limiter["release"] = (permit) => {
    this.#giveBack(permit);
    this.#apps.drop(permit.id);
    this.#say();
    this.#changed();
  };

  #giveBack(permit: Permit): void {
    this.#own.ended(permit, { status: "unsent", durationMs: 0, arrivedAt: this.#now() });
  }

  // What the queue sees.

  /** Whether Redis decides on requests of this replica. */
  #canAsk(): boolean {
    return this.#isReachable && this.#heard?.isWatching === false;
  }

  /** When the shared purse is likely to be open to this replica. */
  #opensAt(now: number): number {
    return this.#heard === undefined ? now + JOIN_MS : this.#heard.at + this.#heard.closedMs;
  }

  /** Whether the shared purse is open to this replica. */
  #isShared(at: number): boolean {
    return this.#canAsk() && at >= this.#opensAt(at);
  }

  readonly state: Limiter["state"] = () => {
    const at = this.#now();
    return {
      mode: this.#isShared(at) ? "shared" : this.#hasJoined ? "degraded" : "joining",
      hasSlot: this.#own.rightUntil() > at,
      windows: this.#windows.map((window) => this.#windowState(window, at)),
      today: this.#apps.days(this.#config.perDay, at),
      newsElsewhere: this.#newsElsewhere,
    };
  };

  #windowState(window: PurseWindow, at: number): WindowState {
    const { windowMs, limit } = window;
    // Absent after a reload, until the script has replied.
    const told = this.#isShared(at) ? this.#heard?.windows[windowMs] : undefined;
    // The script counts a call for the same time.
    const spanMs = Math.ceil(windowMs * (1 + SCRIPT_DRIFT)) + (this.#heard?.slackMs ?? 0);
    const own = this.#own.left(window, at);
    // The shared purse pays in a moment. Until then the window looks empty, so that calls wait and are not refused.
    const isSoon = this.#isReachable && this.#opensAt(at) <= at + JOIN_MS;
    const ownSpent = isSoon ? 0 : this.#own.log.spent(windowMs, at);
    const [shared, left, reported] = told ?? [0, isSoon ? limit - own : 0, ownSpent];
    return { ...window, ...this.#apps.facts(spanMs, at), spent: shared + reported, remaining: left + own };
  }

  readonly announce: Limiter["announce"] = (news) => {
    this.#news = news;
    this.#say();
  };

  readonly onChange: Limiter["onChange"] = (listener) => {
    this.#changed = listener;
  };

  readonly configure: Limiter["configure"] = (config) => {
    const before = this.#purseName();
    this.#config = config;
    this.#windows = pursesOf(config.windows, this.#options);
    // [3] Purses of another size need a new slot.
    if (this.#purseName() !== before) this.#own.stopUsing();
    this.#say();
  };

  #purseName(): string {
    return purseName(this.#windows, this.#options.replicas);
  }

  readonly close: Limiter["close"] = async () => {
    const { clock, timeout } = this.#options;
    this.#isClosing = true;
    if (this.#hasJoined) {
      this.#say();
      await pause(clock, Math.min(2 * timeout.ms(), LEAVE_MS), this.#closed.signal);
    }
    this.#closed.abort();
    this.#wake();
    this.#decide(this.#pending.splice(0));
  };

  /** Only the own purse may pay for these. */
  #decide(pending: readonly Pending[]): void {
    for (const { permit, resolve } of pending) resolve(this.#decideAlone(permit.request));
  }

  // Commands: one at a time.

  #say(): void {
    if (this.#canAsk()) this.#tickAt = this.#now();
    this.#wake();
  }

  async #talk(): Promise<void> {
    while (!this.#closed.signal.aborted) {
      if (this.#pending.length > 0 || this.#now() >= this.#tickAt) await this.#command();
      const sleep = new AbortController();
      // Without a reason, Node makes an error with a stack each time.
      this.#wake = () => sleep.abort("woken");
      const nextAt = this.#pending.length > 0 ? 0 : this.#tickAt;
      await pause(this.#options.clock, Math.max(1, nextAt - this.#now()), sleep.signal);
    }
  }

  async #command(): Promise<void> {
    const askedAt = this.#now();
    const isTick = askedAt >= this.#tickAt;
    if (isTick) this.#tickAt = askedAt + TICK_MS;
    const isLeaving = this.#isClosing;
    if (isLeaving) this.#own.stopUsing();
    const taken = this.#pending.splice(0);
    const { fields, confirm } = this.#own.report(askedAt);
    const request = {
      ...this.#about(askedAt),
      ...fields,
      isLeaving,
      // The reply says what waits at other replicas, and the script tidies up.
      isTick,
      // The script forgets it after a second.
      waiting: this.#news,
      takes: taken.map(({ permit: { id, request }, isOwn }) => {
        return { ...request, id, isOwn, perDay: this.#config.perDay.get(request.app) };
      }),
    };
    const reply = await this.#ask(request, askedAt).catch((error: unknown) => this.#failed(error));
    // Redis may have granted permits whose reply was lost.
    if (reply === undefined) for (const { permit } of taken) this.#giveBack(permit);
    if (reply?.isWatching !== false) return this.#decide(taken);
    confirm();
    for (const [index, pending] of taken.entries())
      pending.resolve(this.#outcome(pending, reply.results[index], reply.at));
    // Redis has confirmed that the slot is free.
    if (isLeaving) this.#closed.abort();
    if (isTick && this.#news.length > 0) this.#changed();
  }

  /** What each command tells the script about this process. */
  #about(askedAt: number): object {
    const { process, clock } = this.#options;
    const heard = this.#heard;
    return {
      ...scriptSettings(this.#config, this.#windows, this.#options),
      process,
      // Numbers the commands of this process.
      number: ++this.#commands,
      // [5] What the last reply said, and how long ago that was.
      known: heard?.known,
      knownMs: heard && askedAt - heard.askedAt,
      // [6] Absent before the first reply.
      time: this.#timeAt(askedAt),
      // The time of day of this machine.
      wall: clock.now(),
    };
  }

  /**
   * [6] The script's time, as the monotonic clock of this process shows it: the time in a reply, and what has passed since.
   * That is never ahead of what has really passed. The script's time follows the replica that shows the latest.
   */
  #timeAt(now: number): number | undefined {
    return this.#anchor === undefined ? undefined : Math.floor(this.#anchor + now * (1 - DRIFT));
  }

  /** Sends a command, and takes over what every reply says. Rejects when there was no reply in time. */
  async #ask(request: object, askedAt: number): Promise<Heard> {
    const timeoutMs = this.#options.timeout.ms();
    const reply = await this.#options.redis.ask(request);
    const at = this.#now();
    if (reply === null || at > askedAt + timeoutMs) throw new Error(`no answer within ${timeoutMs} ms`);
    return this.#hear({ ...reply, askedAt, at });
  }

  #hear(reply: Heard): Heard {
    const { time, at, isWatching, closedMs, waiting } = reply;
    const wasShared = this.#isShared(at);
    const before = this.#heard;
    this.#heard = reply;
    if (!this.#isReachable) this.#options.backInOrder(this.#outage());
    this.#isReachable = true;
    // A process that joins again drops its earlier time, because the script no longer knows it.
    const anchor = time - at * (1 - DRIFT);
    this.#anchor =
      reply.known.joinedBy === before?.known.joinedBy ? Math.max(this.#anchor ?? anchor, anchor) : anchor;
    this.#hasJoined ||= !isWatching;
    if (!isWatching) this.#own.renewed(reply, this.#purseName());
    if (closedMs > 0) this.#tickAt = Math.min(this.#tickAt, at + closedMs);
    if (waiting !== undefined) this.#newsElsewhere = { at, news: waiting.flat() };
    if (waiting !== undefined) this.#tidy(reply);
    const { origin, dataLost, warn } = this.#options;
    // [5] Both origins lose their data at once. One report is enough.
    if (origin === "api" && before !== undefined && before.epoch !== reply.epoch) {
      dataLost();
      warn(DATA_LOST, {});
    }
    if (wasShared !== this.#isShared(at)) this.#changed();
    return reply;
  }

  /** The name in the log of an outage that only the budget has. */
  #outage(): string {
    return `the shared budget (${this.#options.origin})`;
  }

  #failed(error: unknown): undefined {
    const wasReachable = this.#isReachable;
    // An outage of Redis has its own line in the log. The first failure may be the beginning of one, so it is not reported.
    const isOutage = error instanceof StoreUnavailable && !(error instanceof RedisRefusal);
    if (!wasReachable && !isOutage) {
      const cause = error instanceof Error ? error.message : String(error);
      this.#options.outOfOrder({ what: this.#outage(), cause, meanwhile: MEANWHILE });
    }
    this.#isReachable = false;
    this.#tickAt = this.#now() + RETRY_MS;
    this.#decide(this.#pending.splice(0));
    if (wasReachable) this.#changed();
  }

  /** Forgets old calls, and reads on in the ledger how many calls each app sent. */
  #tidy({ time, at }: Heard): void {
    const { arrivalMs, windows } = this.#config;
    const rememberedMs = atLeast(keptMs(windows)) + arrivalMs + this.#options.timeout.mostMs;
    this.#own.log.forget(at - rememberedMs);
    void this.#apps.follow(time - at, at, rememberedMs);
  }
}
