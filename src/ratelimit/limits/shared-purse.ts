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
 * | 2    | A replica counts its own purse alone, in memory, and spends it first.                            | two-purses   |
 * | 3    | A slot has one holder. The holder stops `degradedForMs` after it sent the last confirmed renewal.| slot         |
 * |      | The slot is free when that time, the shortest window and the latest arrival have passed.         | lua: ownSlot |
 * | 4    | A new holder takes over what counts in the purse, and the most that was not reported.            | lua: ownSlot |
 * | 5    | When data were lost, the shared purse is closed for the shortest window. Longer windows go on    | lua: lose    |
 * |      | from what a replica knew. Slots count as held.                                                   |              |
 * | 6    | The script's time is never faster than the monotonic clocks of the replicas.                     | lua: moveTime|
 *
 * Only one command is under way at a time. It carries everything that there is to report and to request.
 */
import { RedisRefusal, StoreUnavailable } from "../../errors.ts";
import { pause } from "../../process/clock.ts";
import {
  type Acquired,
  DAY_MS,
  type Limiter,
  type LimiterConfig,
  type Permit,
  type PermitRequest,
  type News,
} from "../limiter.ts";
import type { SendEnd } from "../throttled.ts";
import { DRIFT, pursesOf } from "./purse-sizes.ts";
import type { Done, Take } from "./redis-script.ts";
import { type SharedLimiterOptions, TICK_MS, TwoPurses } from "./two-purses.ts";

/** A request for a permit of the shared purse. */
interface Pending {
  readonly take: Take;
  readonly request: PermitRequest;
  readonly resolve: (acquired: Acquired) => void;
}

/** Time between two commands while Redis does not answer. */
const RETRY_MS = 100;
const MEANWHILE =
  "This replica makes calls to the API within its own purse of the budget, and refuses the rest. Answers are still shared.";

export class SharedLimiter implements Limiter {
  readonly #options: SharedLimiterOptions;
  readonly #purses: TwoPurses;
  #pending: Pending[] = [];
  /** Calls that wait in this process. */
  #waiting: readonly News[] = [];
  #isWaitingReported = true;
  /** A call was not sent. Its permit is given back at once. */
  #hasUnsent = false;
  /** A configuration with other purses. This replica gives its slot back first. */
  #next: LimiterConfig | undefined;
  /** The last reply. */
  #heard: Done | undefined;
  /** [6] The script's time in a reply, and when it came. */
  #time: { readonly time: number; readonly at: number } | undefined;
  #commands = 0;
  #tickAt: number;
  /** A command is under way. */
  #isBusy = false;
  #isClosing = false;
  /** Aborted when this process has stopped. */
  readonly #closed = new AbortController();
  #cancelTimer = (): void => undefined;
  /** The listener of the queue. */
  #changed = (): void => undefined;

  constructor(options: SharedLimiterOptions) {
    this.#options = options;
    this.#purses = new TwoPurses(options);
    this.#tickAt = this.#purses.now();
    this.#wake();
  }

  readonly acquire = (request: PermitRequest): Promise<Acquired> => this.#acquire(request, false);

  readonly acquireAnyway = async (request: PermitRequest): Promise<Permit> => {
    const acquired = await this.#acquire(request, true);
    return acquired.kind === "permit" ? acquired.permit : this.#purses.payFromOwn(request);
  };

  async #acquire(request: PermitRequest, ignoresLimits: boolean): Promise<Acquired> {
    const purses = this.#purses;
    if (this.#isClosing) return this.#stopped();
    if (!purses.canAsk) return purses.decideAlone(request);
    const own = purses.payIfItMay(request);
    if (own !== undefined) return own;
    return new Promise((resolve) => {
      this.#pending.push({ take: purses.takeOf(request, ignoresLimits), request, resolve });
      this.#wake();
    });
  }

  #stopped(): Acquired {
    return { kind: "wait", until: this.#purses.now() + DAY_MS, reason: "redis-away" };
  }

  readonly complete = ({ id, request }: Permit, { status, durationMs, arrivedAfterMs }: SendEnd): void => {
    const arrivedAt = this.#purses.now() - (durationMs - arrivedAfterMs);
    this.#purses.slot.ended(id, request.app, { arrivedAt, status, durationMs });
  };

  readonly release = ({ id, request }: Permit): void => {
    this.#giveBack(id, request.app);
    this.#purses.apps.released(id, request.app);
    this.#wake();
    this.#changed();
  };

  #giveBack(id: string, app: string): void {
    const arrivedAt = this.#purses.now();
    this.#purses.slot.ended(id, app, { arrivedAt, status: "unsent", durationMs: 0 });
    this.#hasUnsent = true;
  }

  readonly state = (): ReturnType<Limiter["state"]> => this.#purses.state();

  readonly announce = (waiting: readonly News[]): void => {
    if (waiting.length === 0 && this.#waiting.length === 0) return;
    this.#waiting = waiting;
    this.#isWaitingReported = false;
    this.#wake();
  };

  readonly onChange = (listener: () => void): void => {
    this.#changed = listener;
  };

  readonly configure = (config: LimiterConfig): void => {
    const purses = this.#purses;
    // [3] Purses of another size need a new slot.
    const name = purses.purseName(pursesOf(config.windows, this.#options));
    if (this.#next === undefined && name === purses.purseName(purses.windows)) purses.configure(config);
    else this.#next = config;
    this.#wake();
  };

  /** Sends a command now, because Redis may answer again. */
  readonly check = (): void => {
    this.#tickAt = this.#purses.now();
    this.#wake();
  };

  readonly close = async (): Promise<void> => {
    const { clock, timeoutMs } = this.#options;
    this.#isClosing = true;
    if (this.#purses.last !== undefined) {
      this.#wake();
      await pause(clock, 2 * timeoutMs(), this.#closed.signal);
    }
    this.#closed.abort();
    this.#cancelTimer();
    for (const { resolve } of this.#pending.splice(0)) resolve(this.#stopped());
  };

  // Turns: one command at a time.

  /** Takes the next turn now, unless a command is under way. */
  readonly #wake = (): void => {
    if (!this.#isBusy && !this.#closed.signal.aborted) void this.#turn();
  };

  async #turn(): Promise<void> {
    this.#cancelTimer();
    this.#isBusy = true;
    if (this.#isUrgent() || this.#purses.now() >= this.#tickAt)
      // A rejection: the reply cannot be understood.
      await this.#command().catch((error: unknown) => this.#failed(error));
    this.#isBusy = false;
    if (this.#closed.signal.aborted) return;
    const delayMs = this.#isUrgent() ? 1 : this.#tickAt - this.#purses.now();
    this.#cancelTimer = this.#options.clock.after(delayMs, this.#wake);
  }

  /** There is something to say that does not wait for the next tick. */
  #isUrgent(): boolean {
    const hasNews = this.#pending.length > 0 || this.#hasUnsent || !this.#isWaitingReported;
    return this.#purses.canAsk && (hasNews || this.#isLeaving());
  }

  #isLeaving(): boolean {
    return this.#isClosing || this.#next !== undefined;
  }

  async #command(): Promise<void> {
    const purses = this.#purses;
    const { slot } = purses;
    const askedAt = purses.now();
    const isLeaving = this.#isLeaving();
    const isTick = askedAt >= this.#tickAt;
    if (isTick) this.#tickAt = askedAt + TICK_MS;
    const waiting = this.#waiting;
    const taken = isLeaving || !purses.isReachable ? [] : this.#pending.splice(0);
    const { fields, confirm } = slot.report(askedAt);
    this.#hasUnsent = false;
    // The slot may be free from now on, also when the reply is lost.
    if (isLeaving) slot.stopUsing();
    const reply = await this.#ask(askedAt, {
      ...purses.settings(),
      ...this.#known(askedAt, isTick),
      ...fields,
      isLeaving,
      // The reply says what waits at other replicas, and the script tidies up.
      isTick,
      takes: taken.map(({ take }) => take),
    });
    const at = purses.now();
    const wasShared = purses.isShared(at);
    if (reply !== undefined) this.#hear(reply, askedAt, at);
    // Redis may have granted permits whose reply was lost.
    else for (const { take } of taken) this.#giveBack(take.id, take.app);
    if (reply === undefined || reply.isWatching) return this.#refuse(taken);
    confirm();
    purses.last = { ...reply, askedAt };
    if (this.#waiting === waiting) this.#isWaitingReported = true;
    this.#answer(taken, reply, at);
    if (isLeaving) this.#left();
    if (isTick) this.#tidy(reply, at);
    if ((isTick && waiting.length > 0) || wasShared !== purses.isShared(at)) this.#changed();
  }

  #answer(taken: readonly Pending[], { results }: Done, at: number): void {
    for (const [index, { take, request, resolve }] of taken.entries()) {
      const result = results[index] ?? { reason: "redis-away", waitMs: TICK_MS };
      resolve(this.#purses.outcome(take, request, result, at));
    }
  }

  /** What each command tells the script about this process. */
  #known(askedAt: number, isTick: boolean) {
    const { process, clock } = this.#options;
    const { last } = this.#purses;
    const hasNews = isTick ? this.#waiting.length > 0 : !this.#isWaitingReported;
    return {
      process,
      // Numbers the commands of this process.
      number: ++this.#commands,
      // [5] The sequence number in the last reply.
      seen: this.#heard?.seq ?? 0,
      // [5] What counted in the shared purse then, by window, and how long ago that was.
      counts: last?.counts ?? {},
      countsMs: last === undefined ? 0 : askedAt - last.askedAt,
      // [5] The sizes of the own purses in the last reply.
      knownPurses: this.#heard?.purses,
      // [6] Absent before the first reply.
      time: this.#timeAt(askedAt),
      // [6] The command with which this process has joined, as far as it knows.
      joinedBy: this.#heard?.joinedBy ?? 0,
      // The time of day of this machine.
      wall: clock.now(),
      // Absent if that has not changed. The script forgets the calls that wait here after a second, so each tick repeats them.
      waiting: hasNews ? this.#waiting : undefined,
    };
  }

  /**
   * [6] The script's time, as the monotonic clock of this process shows it: the time in a reply, and what has passed since.
   * That is never ahead of what has really passed. The script's time follows the replica that shows the latest.
   */
  #timeAt(now: number): number | undefined {
    return this.#time && Math.floor(this.#time.time + (now - this.#time.at) * (1 - DRIFT));
  }

  /** Sends a command. @returns nothing when there was no reply in time. A later reply is ignored */
  async #ask(askedAt: number, request: object): Promise<Done | undefined> {
    const { clock, redis } = this.#options;
    const timeoutMs = this.#options.timeoutMs();
    const late = new Error(`no answer within ${timeoutMs} ms`);
    const { promise: isLate, reject } = Promise.withResolvers<never>();
    const cancel = clock.after(timeoutMs, () => reject(late));
    try {
      const reply = await Promise.race([redis.ask(request), isLate]);
      if (reply.kind === "late" || this.#purses.now() > askedAt + timeoutMs) throw late;
      return reply;
    } catch (error) {
      this.#failed(error);
      return undefined;
    } finally {
      cancel();
    }
  }

  /** Takes over what every reply says. */
  #hear(reply: Done, askedAt: number, at: number): void {
    const { origin, backInOrder, warn } = this.#options;
    const purses = this.#purses;
    const before = this.#heard;
    this.#heard = reply;
    if (!purses.isReachable) backInOrder(this.#outage());
    purses.isReachable = true;
    purses.isWatching = reply.isWatching;
    purses.opensAt = reply.closedMs > 0 ? at + reply.closedMs : 0;
    // A process that joins again drops its earlier time, because the script no longer knows it.
    if (reply.joinedBy !== before?.joinedBy || reply.time > (this.#timeAt(at) ?? 0))
      this.#time = { time: reply.time, at };
    if (!reply.isWatching) purses.slot.renewed(reply, askedAt, at);
    if (before !== undefined && before.epoch !== reply.epoch) this.#noticeLoss();
    if (purses.opensAt > at) this.#tickAt = Math.min(this.#tickAt, purses.opensAt);
    if (reply.isOldVersion === true && before?.isOldVersion !== true)
      warn(
        "Redis has the budget of version 0.2. Stop all replicas of 0.2: the shared purse is closed while they run.",
        { origin },
      );
  }

  /** [5] */
  #noticeLoss(): void {
    this.#purses.apps.restart();
    // Both origins lose their data at once. One report is enough.
    if (this.#options.origin !== "api") return;
    this.#options.dataLost();
    this.#options.warn(
      "Redis has lost data. The shared purse of the budget is closed until the lost calls have left the shortest window. " +
        "The ledger has lost lines: reports count only what was sent since.",
      {},
    );
  }

  /** The name in the log of an outage that only the budget has. */
  #outage(): string {
    return `the shared budget (${this.#options.origin})`;
  }

  #failed(error: unknown): void {
    const purses = this.#purses;
    const wasReachable = purses.isReachable;
    // An outage of Redis has its own line in the log. The first failure may be the beginning of one, so it is not reported.
    const isOfRedis = error instanceof StoreUnavailable && !(error instanceof RedisRefusal);
    if (!wasReachable && purses.last !== undefined && !isOfRedis) {
      const cause = error instanceof Error ? error.message : String(error);
      this.#options.outOfOrder({ what: this.#outage(), cause, meanwhile: MEANWHILE });
    }
    purses.isReachable = false;
    this.#tickAt = purses.now() + RETRY_MS;
    this.#refuse(this.#pending.splice(0));
    if (wasReachable) this.#changed();
  }

  /** Only the own purse may pay for these. */
  #refuse(pending: readonly Pending[]): void {
    for (const { request, resolve } of pending) resolve(this.#purses.decideAlone(request));
  }

  /** Keeps what waits elsewhere, forgets old calls, and reads on in the ledger which apps sent how many. */
  #tidy({ waiting, time }: Done, at: number): void {
    const { slot, apps } = this.#purses;
    const keptMs = this.#purses.keptMs();
    if (waiting !== undefined) this.#purses.newsElsewhere = { at, news: waiting.flat() };
    slot.forget(at - keptMs);
    void apps.follow(time - at, at, keptMs);
  }

  /** Redis has confirmed that the slot is free. This process stops, or goes on with another configuration. */
  #left(): void {
    const purses = this.#purses;
    if (this.#isClosing) this.#closed.abort();
    if (this.#next === undefined) return;
    purses.configure(this.#next);
    this.#next = undefined;
    purses.last = purses.last && { ...purses.last, windows: [] };
  }
}
