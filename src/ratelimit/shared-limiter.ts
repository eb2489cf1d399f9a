/**
 * The hard limits of all replicas together: Redis decides while it answers, a replica's own escrow while it does not.
 *
 * Proof. In each window, what Redis counts and what the other slots may still spend by themselves is at most the
 * limit after each grant, because one atomic script grants and checks this [1][2][10]. A replica that is cut off
 * spends no more than what the script keeps reserved for its slot at that time [3][4][5], and tells it in the step
 * that ends its reservation [6][8][11]. When data are lost, nothing is granted but those reservations until the lost
 * grants have left the window or are known [7][9][12][13].
 *
 * | Rule | What                                                                                        | Where     |
 * |------|---------------------------------------------------------------------------------------------|-----------|
 * | 1    | A grant leaves to each other slot the escrow that this slot has not spent                   | lua       |
 * | 2    | and to a slot whose lease has lapsed its part, limit/REPLICAS                               | lua       |
 * | 3    | A replica that is cut off spends its part only when that has been reserved for a window     | escrow    |
 * | 4    | It stops `degradedForMs` after its lease                                                    | escrow    |
 * | 5    | A message that arrives too late has no effect; while Redis does not answer, it only asks the time | lua, here |
 * | 6    | What it sent by itself is entered in the step that renews its slot                          | lua       |
 * | 7    | A new holder spends by itself only what Redis has confirmed to fit; it inherits nothing     | lua       |
 * | 8    | A lapsed slot is free when its holder has stopped and its calls have left the short windows.| lua       |
 * |      | A process that listens where a holder did proves that this one is dead                      |           |
 * | 9    | After a loss of data all slots count as lapsed; for one short window a slot gets its escrow | lua       |
 * |      | When the clock may have jumped, nothing is granted before those that know can come          |           |
 * | 10   | In a long window Redis confirms to each slot what it may spend alone, and reserves that     | lua       |
 * | 11   | What a holder that never came back may have sent counts on in the long windows; its last    | lua       |
 * |      | permits do not stand for that, as it may not have heard of them                             |           |
 * | 12   | After a loss, the first replica that returns says what counted, by age; when the clock has  | lua, here |
 * |      | jumped, that takes the place of all that the log says                                       |           |
 * | 13   | Another server, or an older copy, counts as a loss; the calls in the data stay counted      | lua       |
 *
 * One command is under way at a time. It carries all that there is to say: permits that are wanted, calls that ended,
 * what waits here. So nothing can overtake anything, and many permits cost one round trip.
 */
import { pause } from "../process/clock.ts";
import { aloneUntil, digestAges, DRIFT, escrowWindows, mostGrantedIn } from "./escrow.ts";
import { StoreUnavailable } from "../errors.ts";
import type { Priority } from "../types.ts";
import { limitsText } from "../usage/rate-window.ts";
import type { Acquired, Limiter, PermitRequest } from "./limiter.ts";
import type { Digest, KnownSend, ReplicaSlot, Reply, Request, TakeResult } from "./redis-limiter.ts";
import { alone, decideAlone, permitOf, stateOf, takeOf } from "./shared-permits.ts";
import {
  AWAY_MS,
  countMs,
  createSide,
  DAY_MS,
  type Pending,
  RETRY_MS,
  SETTLE_MS,
  settingsOf,
  type SharedLimiterOptions,
  type Side,
  STATE_MS,
  tenureOf,
} from "./shared-side.ts";

export interface SharedLimiter extends Limiter {
  /** Redis may be there again. */
  readonly check: () => void;
  /**
   * The slots as Redis knows them. @param dead a process, or the number of a slot whose process is not known: an
   * operator says that it is dead. Rejects where Redis does not answer.
   */
  readonly replicas: (dead?: string) => Promise<readonly ReplicaSlot[]>;
}

/** What ended is told so soon: with other calls that ended, as a permit is not free before a window has passed. */
const ENDS_MS = 50;
/** Calls told in one message, so that none takes long. */
const MOST_SENDS = 200;
/** Redis' clock has jumped when it is ahead of what is possible by more than this, or than a lease. */
const JUMP_MS = 1_000;

export function createSharedLimiter(options: SharedLimiterOptions): SharedLimiter {
  const side = createSide(options);
  if (options.admission === undefined) wake(side);
  else void admit(side, options.admission);
  return {
    acquire: (request) => acquire(side, request, false),
    async acquireAnyway(request) {
      const acquired = await acquire(side, request, true);
      return acquired.kind === "permit" ? acquired.permit : alone(side, request);
    },
    complete(permit, end) {
      const now = options.clock.monotonic();
      side.own.end(permit.id, permit.request.app, now, end);
      side.endsAt = Math.min(side.endsAt, now + ENDS_MS);
      wake(side);
    },
    release(permit) {
      const now = options.clock.monotonic();
      side.own.end(permit.id, permit.request.app, now, undefined);
      side.endsAt = now;
      wake(side);
      side.changed();
    },
    state: () => stateOf(side),
    announce(waiting) {
      if (waiting.length === 0 && side.waiting.length === 0) return;
      side.waiting = waiting;
      side.toldWaiting = false;
      wake(side);
    },
    onChange(listener) {
      side.changed = listener;
    },
    configure(config) {
      const { windows, arrivalMs } = side.next ?? side.config;
      const isSame = limitsText(windows) === limitsText(config.windows) && arrivalMs === config.arrivalMs;
      if (side.next === undefined && isSame) side.config = config;
      else side.next = config;
      wake(side);
    },
    check: () => wake(side),
    replicas: (dead) => replicas(side, dead),
    close: () => close(side),
  };
}

async function admit(side: Side, admission: NonNullable<SharedLimiterOptions["admission"]>): Promise<void> {
  const sends = await admission();
  const now = side.options.clock.monotonic();
  // It waited for the old replicas, not for Redis.
  if (sends.length > 0) side.startedAt = now;
  for (const { id, ageMs } of sends) {
    const record = { resource: "listings", cause: "miss", query: "" } as const;
    const take = { ...record, id, app: "other", leave: [], perDay: undefined, isAnyway: true };
    // Redis is not to enter it in the ledger: the old protocol's has it.
    side.own.enter(take, { now, latest: now - ageMs, wasTold: true });
  }
  side.isBusy = false;
  wake(side);
}

// Turns: one command at a time.

/** Gives the next command now, if there is something to say and none is under way. */
function wake(side: Side): void {
  if (!side.isBusy && !side.isClosed) void turn(side);
}

async function turn(side: Side): Promise<void> {
  side.cancelTimer();
  side.isBusy = true;
  const again = await oneTurn(side).catch((error: unknown) => {
    // Redis has answered what cannot be understood.
    failed(side, error);
    return RETRY_MS;
  });
  side.isBusy = false;
  side.onTurn();
  if (side.isClosed) return;
  if (again === 0) return void turn(side);
  side.cancelTimer = side.options.clock.after(again, () => wake(side));
}

/** @returns when the next turn is due, in milliseconds */
async function oneTurn(side: Side): Promise<number> {
  if (!side.isReachable) return (await askTime(side)) ? 0 : RETRY_MS;
  if (!side.isJoined) return (await join(side)) ? 0 : RETRY_MS;
  const now = side.options.clock.monotonic();
  const hasWork = side.pending.length > 0 || !side.toldWaiting || side.next !== undefined;
  const isWaiting = side.waiting.length > 0 || side.refusedAt !== undefined;
  const dueIn = Math.min(
    side.renewAt - now,
    side.endsAt - now,
    isWaiting ? side.stateAt - now : Number.POSITIVE_INFINITY,
  );
  if (!hasWork && !side.isClosing && dueIn > 0) return dueIn;
  return (await sync(side)) ? (side.isClosed ? RETRY_MS : 1) : 0;
}

/** Asks Redis. @returns nothing where there was no answer in time: then the answer is as if it had never come */
async function ask(side: Side, request: Request): Promise<Reply | undefined> {
  const { clock, timeoutMs, ask: send } = side.options;
  const askedAt = clock.monotonic();
  if (request.kind !== "time" && side.last !== undefined)
    side.noEffectAfter = Math.max(
      side.noEffectAfter,
      askedAt + timeoutMs + (side.last.heardAt - side.last.askedAt),
    );
  let refusal: unknown;
  const reply = await within(
    side,
    send(request, settingsOf(side)).catch((error: unknown) => {
      refusal = error;
      return undefined;
    }),
  );
  const heardAt = clock.monotonic();
  if (reply === undefined || heardAt > askedAt + timeoutMs) {
    failed(side, refusal ?? new Error(`no answer within ${timeoutMs} ms`));
    return undefined;
  }
  const { last } = side;
  if (
    last !== undefined &&
    reply.time > last.time + (heardAt - last.askedAt) + Math.max(JUMP_MS, side.options.leaseMs)
  )
    side.hasJumped = true;
  if (last === undefined) side.startedAlone = heardAt > side.startedAt + AWAY_MS;
  side.last = { time: reply.time, askedAt, heardAt };
  side.serverEpoch = reply.epoch;
  return reply;
}

function within(side: Side, reply: Promise<Reply | undefined>): Promise<Reply | undefined> {
  const { clock, timeoutMs } = side.options;
  return new Promise((resolve) => {
    const cancel = clock.after(timeoutMs, () => resolve(undefined));
    void reply.then(resolve).finally(cancel);
  });
}

/** What the log calls an outage that only the budget meets. */
const outageOf = ({ options }: Side): string => `the shared budget (${options.origin})`;
const MEANWHILE =
  "This replica makes calls to the API within its escrow of the budget, and refuses the rest. Answers are still shared.";

/** [5] From now on Redis is only asked for the time, until it answers. */
function failed(side: Side, error: unknown): void {
  side.isReachable = false;
  side.isJoined = false;
  // An outage of Redis has its line in the log. It may begin with this failure, so only the next one tells them apart.
  if (side.isCutOff && side.hasEverJoined && !(error instanceof StoreUnavailable)) {
    const cause = error instanceof Error ? error.message : String(error);
    side.options.outOfOrder({ what: outageOf(side), cause, meanwhile: MEANWHILE });
  }
  const wasCutOff = side.isCutOff;
  side.isCutOff = true;
  const pending = side.pending.splice(0);
  for (const { take, request, resolve } of pending) resolve(decideAlone(side, take, request));
  if (!wasCutOff) side.changed();
}

async function askTime(side: Side): Promise<boolean> {
  const reply = await ask(side, { kind: "time", low: lowestTime(side) });
  side.isReachable = reply !== undefined;
  return side.isReachable;
}

/** Redis' time is this at least. */
function lowestTime({ last, options }: Side): number | undefined {
  return last && last.time + (options.clock.monotonic() - last.heardAt);
}

function common(side: Side): Pick<Side, "epoch" | "slot" | "quotas"> & { low: number | undefined } {
  return { low: lowestTime(side), epoch: side.epoch, slot: side.slot, quotas: side.quotas };
}

async function join(side: Side): Promise<boolean> {
  const { clock } = side.options;
  const askedAt = clock.monotonic();
  const { hasJumped, isCutOff, windows, config } = side;
  const isFull = hasJumped || side.epoch !== side.serverEpoch;
  const keptMs = Math.max(config.perDay.size > 0 ? DAY_MS : 0, ...windows.map(({ ms }) => ms)) + JUMP_MS;
  const sends = side.own.report(askedAt, isFull ? askedAt - keptMs : undefined);
  const mayClaim = side.slot !== undefined && askedAt <= aloneUntil(tenureOf(side), side.options);
  const tell = (kind: "upload" | "join", part: readonly KnownSend[]): Promise<Reply | undefined> =>
    ask(side, {
      kind,
      ...common(side),
      slot: mayClaim ? side.slot : undefined,
      sends: part,
      isFull,
      digest: isFull ? digestOf(side, clock.monotonic()) : undefined,
      hasJumped,
    });
  let told = 0;
  for (; told + MOST_SENDS < sends.length; told += MOST_SENDS) {
    const reply = await tell("upload", sends.slice(told, told + MOST_SENDS));
    side.isReachable = reply?.kind === "uploaded";
    if (!side.isReachable) return false;
  }
  const reply = await tell("join", sends.slice(told));
  if (reply === undefined) return false;
  if (reply.kind !== "joined") {
    side.isReachable = reply.kind === "upload";
    return false;
  }
  side.own.told(sends);
  if (!mayClaim || reply.isNew || reply.slot !== side.slot) side.quotas = [];
  warnOfLoss(side, reply);
  Object.assign(side, { slot: reply.slot, epoch: reply.epoch, acknowledgedAt: askedAt, hasJumped: false });
  Object.assign(side, { isJoined: true, hasEverJoined: true, isCutOff: false });
  side.renewAt = askedAt;
  side.options.backInOrder(outageOf(side));
  if (isCutOff) side.changed();
  return true;
}

/** What is not guaranteed is said where it can be noticed. */
function warnOfLoss(side: Side, joined: Extract<Reply, { readonly kind: "joined" }>): void {
  const { process, origin, warn } = side.options;
  // Both origins lose their lines at once. One warning is enough.
  if (side.epoch !== undefined && side.epoch !== joined.epoch && origin === "api") {
    warn("The ledger has lost lines: Redis has lost its data. Reports count only what was sent since.", {});
  }
  // An epoch is named after the replica that found no data.
  const hasFoundNoData = !side.hasEverJoined && joined.epoch.endsWith(`.${process}`);
  if (hasFoundNoData && side.startedAlone) {
    warn(
      "Redis was away when this replica started, and now has no data. If other replicas ran before, a limit may be exceeded.",
      { origin },
    );
  }
  if (joined.mayHaveOverrun) {
    warn(
      "Redis lost data, and new replicas sent calls before this replica reported the lost ones. A limit may have been exceeded.",
      { origin },
    );
  }
}

function digestOf(side: Side, now: number): Digest | undefined {
  if (side.digest === undefined) return undefined;
  const { time, counts, askedAt, heardAt } = side.digest;
  return {
    time,
    counts,
    elapsedMs: Math.floor((now - heardAt) * (1 - DRIFT)),
    since: mostGrantedIn(side.windows, now - askedAt),
  };
}

async function sync(side: Side): Promise<boolean> {
  const askedAt = side.options.clock.monotonic();
  const isLeaving = side.isClosing || side.next !== undefined;
  const pending = isLeaving ? [] : side.pending.splice(0);
  const isRenewing = askedAt >= side.renewAt;
  const isWaiting = side.waiting.length > 0 || side.refusedAt !== undefined;
  const wantsState = (isRenewing || isWaiting) && askedAt >= side.stateAt;
  const { reports, confirm } = side.own.ended(askedAt);
  side.endsAt = Number.POSITIVE_INFINITY;
  const { waiting } = side;
  const known = common(side);
  // This command may free the slot also when its reply is lost: from now on nothing is sent by its escrow.
  if (isLeaving) Object.assign(side, { slot: undefined, quotas: [] });
  const reply = await ask(side, {
    kind: "sync",
    ...known,
    ended: reports,
    takes: pending.map(({ take }) => take),
    waiting: newsOfWaiting(side),
    isLeaving,
    digestAges: isRenewing ? digestAges(side.windows) : undefined,
    wantsState,
    perDay: wantsState ? [...side.config.perDay] : [],
  });
  if (reply?.kind === "left") return leave(side, confirm);
  if (reply?.kind !== "synced") return giveUp(side, pending, reply);
  confirm();
  if (side.waiting === waiting) side.toldWaiting = true;
  if (wantsState) side.stateAt = askedAt + STATE_MS;
  learn(side, reply, { askedAt, isRenewing });
  answer(side, pending, reply.results);
  tellOfRoom(side, wantsState);
  return true;
}

/** What waits here, while something waits, and once more when nothing waits any longer. */
function newsOfWaiting({ waiting, toldWaiting }: Side): (readonly [string, Priority, number])[] | undefined {
  if (waiting.length === 0 && toldWaiting) return undefined;
  return waiting.map(({ app, priority, count }) => [app, priority, count]);
}

/** The command has failed, or Redis does not know this replica any more. */
function giveUp(side: Side, pending: readonly Pending[], reply: Reply | undefined): false {
  const now = side.options.clock.monotonic();
  // A permit whose grant was not heard is given back.
  side.endsAt = now;
  for (const { take } of pending) side.own.end(take.id, take.app, now, undefined);
  if (reply?.kind === "late") failed(side, new Error("a command came late"));
  side.isJoined = false;
  const until = now + RETRY_MS;
  for (const { take, request, resolve } of pending)
    resolve(side.isCutOff ? decideAlone(side, take, request) : { kind: "wait", until, reason: "joining" });
  return false;
}

function learn(
  side: Side,
  reply: Extract<Reply, { kind: "synced" }>,
  { askedAt, isRenewing }: { readonly askedAt: number; readonly isRenewing: boolean },
): void {
  const { clock, leaseMs } = side.options;
  if (side.own.hasEnded()) side.endsAt = Math.min(side.endsAt, clock.monotonic() + ENDS_MS);
  Object.assign(side, { acknowledgedAt: askedAt, quotas: reply.quotas, counts: reply.windows });
  side.opensAt = clock.monotonic() + reply.opensInMs;
  if (reply.digest && side.last) side.digest = { counts: reply.digest, ...side.last };
  if (reply.state) {
    Object.assign(side, { described: reply.state, describedAt: clock.monotonic() });
    side.granted.clear();
  }
  if (!isRenewing) return;
  side.renewAt = askedAt + (side.slot === undefined ? leaseMs : leaseMs / 4);
  // Without a slot it asks for one now and then.
  if (side.slot === undefined) side.isJoined = false;
  side.own.forget(askedAt - settingsOf(side).keepMs);
}

function answer(side: Side, pending: readonly Pending[], results: readonly TakeResult[]): void {
  const now = side.options.clock.monotonic();
  for (const [index, { take, request, resolve }] of pending.entries()) {
    const result = results[index];
    if (result === undefined) throw new Error("the script answered fewer permits than were asked for");
    if (result.isGranted === true) {
      side.own.enter(take, { now, latest: now + countMs(side), wasTold: true });
      side.granted.set(take.app, (side.granted.get(take.app) ?? 0) + 1);
      resolve({ kind: "permit", permit: permitOf(side, take.id, request, now) });
    } else {
      side.refusedAt = remainingIn(side);
      resolve({ kind: "wait", until: now + result.inMs, reason: result.reason });
    }
  }
}

const remainingIn = ({ windows, counts }: Side): number[] =>
  windows.map(({ limit }, index) =>
    Math.max(0, limit - (counts[index]?.[0] ?? 0) - (counts[index]?.[1] ?? 0)),
  );

/** Says that asking again may help, once there is more than when a permit was last refused. */
function tellOfRoom(side: Side, hasState: boolean): void {
  const { refusedAt } = side;
  if (refusedAt === undefined) {
    if (hasState) side.changed();
    return;
  }
  const isMore = remainingIn(side).some((left, index) => left > (refusedAt[index] ?? 0));
  // Nobody has asked again for a while.
  if (isMore || side.waiting.length === 0) side.refusedAt = undefined;
  if (isMore || hasState) side.changed();
}

/** The slot is given back: this process stops, or joins with another configuration. */
function leave(side: Side, confirm: () => void): boolean {
  confirm();
  Object.assign(side, { isJoined: false, slot: undefined, quotas: [], counts: [], described: undefined });
  if (side.isClosing) side.isClosed = true;
  if (side.next === undefined) return true;
  side.config = side.next;
  side.windows = escrowWindows(side.config.windows, side.options);
  side.opensAt = side.options.clock.monotonic() + SETTLE_MS;
  Object.assign(side, { next: undefined, digest: undefined });
  return true;
}

async function replicas(side: Side, dead: string | undefined): Promise<readonly ReplicaSlot[]> {
  if (side.last === undefined) throw new Error("Redis has not answered yet");
  const reply = await side.options.ask({ kind: "replicas", ...common(side), dead }, settingsOf(side));
  if (reply.kind !== "replicas") throw new Error("Redis does not answer in time");
  return reply.replicas;
}

function acquire(side: Side, request: PermitRequest, isAnyway: boolean): Promise<Acquired> {
  const { clock } = side.options;
  const now = clock.monotonic();
  const take = takeOf(side, request, isAnyway);
  if (side.isClosing) return Promise.resolve({ kind: "wait", until: now + DAY_MS, reason: "joining" });
  if (side.isReachable)
    return new Promise((resolve) => {
      side.pending.push({ take, request, resolve });
      wake(side);
    });
  if (side.isCutOff) return Promise.resolve(decideAlone(side, take, request));
  return Promise.resolve({ kind: "wait", until: now + RETRY_MS, reason: "joining" });
}

async function close(side: Side): Promise<void> {
  const { clock, timeoutMs } = side.options;
  side.isClosing = true;
  const giveUpAt = clock.monotonic() + 2 * timeoutMs;
  while (!side.isClosed && clock.monotonic() < giveUpAt && (side.isJoined || side.own.hasUnreported())) {
    const turned = new Promise<void>((resolve) => (side.onTurn = resolve));
    wake(side);
    await turned;
    if (!side.isReachable) await pause(clock, RETRY_MS / 4);
  }
  side.isClosed = true;
  side.cancelTimer();
  const until = clock.monotonic() + DAY_MS;
  for (const { resolve } of side.pending.splice(0)) resolve({ kind: "wait", until, reason: "joining" });
}
