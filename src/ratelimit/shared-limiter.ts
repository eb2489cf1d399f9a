/**
 * The hard limits of all replicas together. Redis decides while it answers. While it does not answer, each replica
 * decides alone, by its own escrow.
 *
 * | Word         | Meaning                                                                                               |
 * |--------------|-------------------------------------------------------------------------------------------------------|
 * | slot         | The right of one replica to send without Redis. There are REPLICAS slots. A lease gives a slot to one replica |
 * | escrow       | The small part of each window that a slot may always spend without Redis                              |
 * | part         | limit/REPLICAS: what a slot may spend without Redis after a whole window                              |
 * | quota        | What Redis last confirmed that a slot may spend without Redis                                         |
 * | short window | At most `degradedForMs` long. Longer windows are long windows                                         |
 *
 * Proof. (a) After each grant, in each window, the calls that Redis counts and the calls that the other slots may still
 * send without Redis are together at most the limit, because one atomic script checks and grants [1][2][10]. (b) A
 * replica that is cut off never sends more than the script reserves for its slot at that time [3][4][5][7], and the step
 * that ends the reservation also counts what the replica sent [6][8][11]. (c) When Redis has lost data, it grants
 * nothing but those reservations, until the lost calls have left the window or a replica has reported them [9][12][13].
 *
 * | Rule | What                                                                                         | Where     |
 * |------|----------------------------------------------------------------------------------------------|-----------|
 * | 1    | A grant leaves room for the unspent escrow of each other slot.                               | lua       |
 * | 2    | For a slot whose lease has lapsed, a grant leaves room for its unspent part.                 | lua       |
 * | 3    | A replica that is cut off spends its part only when Redis has certainly reserved that part   | escrow    |
 * |      | for a whole window. Until then it spends its escrow.                                         |           |
 * | 4    | A replica that is cut off stops sending `degradedForMs` after its lease has lapsed.          | escrow    |
 * | 5    | A command that arrives late has no effect. While Redis does not answer, a replica only asks  | lua, here |
 * |      | for the time.                                                                                |           |
 * | 6    | A replica uploads the calls that it sent without Redis, in the step that renews its slot.    | lua       |
 * | 7    | A new holder of a slot inherits nothing. Redis confirms a quota only when it fits.           | lua       |
 * |      | A replica that gives its slot back stops using its escrow before it sends that command.      | here      |
 * | 8    | A lapsed slot is free when its holder has certainly stopped and the holder's calls have left | lua       |
 * |      | the short windows. An operator, or a new process with the same address, can report that the  |           |
 * |      | holder is dead.                                                                              |           |
 * | 9    | After a loss of data all slots count as lapsed. For the length of the shortest window, each  | lua       |
 * |      | slot gets only its quota. When Redis has no data or its clock may have jumped, it grants     |           |
 * |      | nothing at first, so that replicas that know more can report.                                |           |
 * | 10   | For a long window, Redis confirms how much each slot may spend without Redis, and reserves   | lua       |
 * |      | that amount.                                                                                 |           |
 * | 11   | When a holder does not return, the calls that it may have sent stay counted in the long      | lua       |
 * |      | windows. The permits in the last reply to it count as well. They do not replace such calls,  |           |
 * |      | because the holder may not have received that reply.                                         |           |
 * |      | A permit that Redis granted and that was released unused counts against the replica's own    | own-sends |
 * |      | quota until Redis has confirmed the release.                                                 |           |
 * | 12   | After a loss of data, the first replica that returns reports the counts that it last         | lua, here |
 * |      | received, by age, and the most that Redis may have granted since. If Redis' clock has        |           |
 * |      | jumped, this report replaces the whole log.                                                  |           |
 * | 13   | Data that another server wrote, or an older copy, count as lost. Their calls stay counted.   | lua       |
 *
 * Only one command is under way at a time. It carries everything that there is to report and to request: permits, calls
 * that have ended, calls that wait. So commands cannot overtake each other, and many permits cost one round trip.
 */
import { pause } from "../process/clock.ts";
import { aloneUntil, digestAges, DRIFT, escrowWindows, mostGrantedIn } from "./escrow.ts";
import { StoreUnavailable } from "../errors.ts";
import type { Priority } from "../types.ts";
import { limitsText } from "../usage/rate-window.ts";
import type { Acquired, Limiter, PermitRequest } from "./limiter.ts";
import type { Common, Digest, KnownSend, ReplicaSlot, Reply, Request, TakeResult } from "./redis-limiter.ts";
import { decideAlone, permitAlone, permitOf, stateOf, takeOf } from "./shared-permits.ts";
import {
  AWAY_MS,
  countMs,
  createReplica,
  DAY_MS,
  type Pending,
  RETRY_MS,
  SETTLE_MS,
  settingsOf,
  type SharedLimiterOptions,
  type Replica,
  STATE_MS,
  tenureOf,
} from "./shared-replica.ts";

export interface SharedLimiter extends Limiter {
  /** Redis may answer again: tries it now. */
  readonly check: () => void;
  /**
   * Returns the slots as Redis knows them. Rejects when Redis does not answer.
   * @param dead a process that is dead, as an operator reports; the number of its slot where the process is not known
   */
  readonly replicas: (dead?: string) => Promise<readonly ReplicaSlot[]>;
}

/** How long ended calls wait for a common report. A permit is not free before a window has passed, so this costs little. */
const REPORT_MS = 50;
/** Calls in one upload, so that no command takes long. */
const MOST_UPLOADED = 200;
/** Redis' clock has jumped when it is ahead of any possible time by more than this and more than a lease. */
const JUMP_MS = 1_000;

export function createSharedLimiter(options: SharedLimiterOptions): SharedLimiter {
  const replica = createReplica(options);
  if (options.admission === undefined) wake(replica);
  else void admit(replica, options.admission);
  return {
    acquire: (request) => acquire(replica, request, false),
    async acquireAnyway(request) {
      const acquired = await acquire(replica, request, true);
      return acquired.kind === "permit" ? acquired.permit : permitAlone(replica, request);
    },
    complete(permit, end) {
      const now = options.clock.monotonic();
      replica.own.end(permit.id, permit.request.app, now, end);
      replica.reportAt = Math.min(replica.reportAt, now + REPORT_MS);
      wake(replica);
    },
    release(permit) {
      const now = options.clock.monotonic();
      replica.own.end(permit.id, permit.request.app, now, undefined);
      replica.reportAt = now;
      wake(replica);
      replica.changed();
    },
    state: () => stateOf(replica),
    announce(waiting) {
      if (waiting.length === 0 && replica.waiting.length === 0) return;
      replica.waiting = waiting;
      replica.isWaitingReported = false;
      wake(replica);
    },
    onChange(listener) {
      replica.changed = listener;
    },
    configure(config) {
      const { windows, arrivalMs } = replica.next ?? replica.config;
      const isSame = limitsText(windows) === limitsText(config.windows) && arrivalMs === config.arrivalMs;
      if (replica.next === undefined && isSame) replica.config = config;
      else replica.next = config;
      wake(replica);
    },
    check: () => wake(replica),
    replicas: (dead) => replicas(replica, dead),
    close: () => close(replica),
  };
}

async function admit(
  replica: Replica,
  admission: NonNullable<SharedLimiterOptions["admission"]>,
): Promise<void> {
  const sends = await admission();
  const now = replica.options.clock.monotonic();
  // This process waited for the old replicas, not for Redis.
  if (sends.length > 0) replica.startedAt = now;
  for (const { id, ageMs } of sends) {
    const record = { resource: "listings", cause: "miss", query: "" } as const;
    const take = { ...record, id, app: "other", leave: [], perDay: undefined, ignoresLimits: true };
    // `isKnown`, so that Redis does not enter the call in its ledger: the ledger of the old protocol contains it.
    replica.own.enter(take, { now, latest: now - ageMs, isKnown: true });
  }
  replica.isBusy = false;
  wake(replica);
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
  if (replica.isClosed) return;
  if (again === 0) return void turn(replica);
  replica.cancelTimer = replica.options.clock.after(again, () => wake(replica));
}

/** Sends the next command, if one is due. @returns milliseconds until the next turn */
async function oneTurn(replica: Replica): Promise<number> {
  if (!replica.isReachable) return (await askTime(replica)) ? 0 : RETRY_MS;
  if (!replica.isJoined) return (await join(replica)) ? 0 : RETRY_MS;
  const now = replica.options.clock.monotonic();
  const hasWork = replica.pending.length > 0 || !replica.isWaitingReported || replica.next !== undefined;
  const dueIn = Math.min(
    replica.renewAt - now,
    replica.reportAt - now,
    needsState(replica) ? replica.stateAt - now : Number.POSITIVE_INFINITY,
  );
  if (!hasWork && !replica.isClosing && dueIn > 0) return dueIn;
  return (await sync(replica)) ? (replica.isClosed ? RETRY_MS : 1) : 0;
}

/** Whether a change of the counts matters to a call that waits, or was refused. */
const needsState = ({ waiting, remainingAtRefusal }: Replica): boolean =>
  waiting.length > 0 || remainingAtRefusal !== undefined;

/** Sends a command to Redis. @returns nothing when there was no reply in time. A later reply is ignored */
async function ask(replica: Replica, request: Request): Promise<Reply | undefined> {
  const { clock, timeoutMs, ask: send } = replica.options;
  const askedAt = clock.monotonic();
  if (request.kind !== "time" && replica.lastReply !== undefined)
    replica.noEffectAfter = Math.max(
      replica.noEffectAfter,
      askedAt + timeoutMs + (replica.lastReply.receivedAt - replica.lastReply.askedAt),
    );
  let refusal: unknown;
  const reply = await within(
    replica,
    send(request, settingsOf(replica)).catch((error: unknown) => {
      refusal = error;
      return undefined;
    }),
  );
  const receivedAt = clock.monotonic();
  if (reply === undefined || receivedAt > askedAt + timeoutMs) {
    failed(replica, refusal ?? new Error(`no answer within ${timeoutMs} ms`));
    return undefined;
  }
  const { lastReply } = replica;
  if (
    lastReply !== undefined &&
    reply.time >
      lastReply.time + (receivedAt - lastReply.askedAt) + Math.max(JUMP_MS, replica.options.leaseMs)
  )
    replica.hasJumped = true;
  if (lastReply === undefined) replica.startedWithoutRedis = receivedAt > replica.startedAt + AWAY_MS;
  replica.lastReply = { time: reply.time, askedAt, receivedAt };
  replica.serverEpoch = reply.epoch;
  return reply;
}

function within(replica: Replica, reply: Promise<Reply | undefined>): Promise<Reply | undefined> {
  const { clock, timeoutMs } = replica.options;
  return new Promise((resolve) => {
    const cancel = clock.after(timeoutMs, () => resolve(undefined));
    void reply.then(resolve).finally(cancel);
  });
}

/** The name in the log of an outage that only the budget has. */
const outageOf = ({ options }: Replica): string => `the shared budget (${options.origin})`;
const MEANWHILE =
  "This replica makes calls to the API within its escrow of the budget, and refuses the rest. Answers are still shared.";

/** A command has failed. [5] From now on this replica only asks for the time, until Redis answers. */
function failed(replica: Replica, error: unknown): void {
  replica.isReachable = false;
  replica.isJoined = false;
  // An outage of Redis has its own line in the log. The first failure may be the beginning of one, so it is not reported.
  if (replica.isCutOff && replica.hasEverJoined && !(error instanceof StoreUnavailable)) {
    const cause = error instanceof Error ? error.message : String(error);
    replica.options.outOfOrder({ what: outageOf(replica), cause, meanwhile: MEANWHILE });
  }
  const wasCutOff = replica.isCutOff;
  replica.isCutOff = true;
  const pending = replica.pending.splice(0);
  for (const { take, request, resolve } of pending) resolve(decideAlone(replica, take, request));
  if (!wasCutOff) replica.changed();
}

async function askTime(replica: Replica): Promise<boolean> {
  const reply = await ask(replica, { kind: "time", timeAtLeast: timeAtLeast(replica) });
  replica.isReachable = reply !== undefined;
  return replica.isReachable;
}

/** The earliest that Redis' time can be now. */
function timeAtLeast({ lastReply, options }: Replica): number | undefined {
  return lastReply && lastReply.time + (options.clock.monotonic() - lastReply.receivedAt);
}

function common(replica: Replica): Common {
  return {
    timeAtLeast: timeAtLeast(replica),
    epoch: replica.epoch,
    slot: replica.slot,
    quotas: replica.quotas,
  };
}

async function join(replica: Replica): Promise<boolean> {
  const { clock } = replica.options;
  const askedAt = clock.monotonic();
  const { hasJumped, isCutOff, windows, config } = replica;
  const isFull = hasJumped || replica.epoch !== replica.serverEpoch;
  const keptMs = Math.max(config.perDay.size > 0 ? DAY_MS : 0, ...windows.map(({ ms }) => ms)) + JUMP_MS;
  const sends = replica.own.uploads(askedAt, isFull ? askedAt - keptMs : undefined);
  const mayClaim = replica.slot !== undefined && askedAt <= aloneUntil(tenureOf(replica), replica.options);
  const upload = (kind: "upload" | "join", part: readonly KnownSend[]): Promise<Reply | undefined> =>
    ask(replica, {
      kind,
      ...common(replica),
      slot: mayClaim ? replica.slot : undefined,
      sends: part,
      isFull,
      digest: isFull ? digestOf(replica, clock.monotonic()) : undefined,
      hasJumped,
    });
  let uploaded = 0;
  for (; uploaded + MOST_UPLOADED < sends.length; uploaded += MOST_UPLOADED) {
    const reply = await upload("upload", sends.slice(uploaded, uploaded + MOST_UPLOADED));
    replica.isReachable = reply?.kind === "uploaded";
    if (!replica.isReachable) return false;
  }
  const reply = await upload("join", sends.slice(uploaded));
  if (reply === undefined) return false;
  if (reply.kind !== "joined") {
    replica.isReachable = reply.kind === "upload";
    return false;
  }
  replica.own.confirm(sends);
  if (!mayClaim || reply.isNew || reply.slot !== replica.slot) replica.quotas = [];
  warnOfLoss(replica, reply);
  Object.assign(replica, { slot: reply.slot, epoch: reply.epoch, acknowledgedAt: askedAt, hasJumped: false });
  Object.assign(replica, { isJoined: true, hasEverJoined: true, isCutOff: false });
  replica.renewAt = askedAt;
  replica.options.backInOrder(outageOf(replica));
  if (isCutOff) replica.changed();
  return true;
}

/** Warns where this replica notices that a limit may have been exceeded, or that the ledger has lost lines. */
function warnOfLoss(replica: Replica, joined: Extract<Reply, { readonly kind: "joined" }>): void {
  const { process, origin, warn } = replica.options;
  // Both origins lose their data at once. One warning is enough.
  if (replica.epoch !== undefined && replica.epoch !== joined.epoch && origin === "api") {
    warn("The ledger has lost lines: Redis has lost its data. Reports count only what was sent since.", {});
  }
  // An epoch is named after the replica that found no data.
  const foundNoData = !replica.hasEverJoined && joined.epoch.endsWith(`.${process}`);
  if (foundNoData && replica.startedWithoutRedis) {
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

/** [12] What counted, by the last digest from Redis, and the most that Redis may have granted since. */
function digestOf(replica: Replica, now: number): Digest | undefined {
  if (replica.digest === undefined) return undefined;
  const { time, counts, askedAt, receivedAt } = replica.digest;
  return {
    time,
    counts,
    elapsedMs: Math.floor((now - receivedAt) * (1 - DRIFT)),
    grantedSince: mostGrantedIn(replica.windows, now - askedAt),
  };
}

async function sync(replica: Replica): Promise<boolean> {
  const askedAt = replica.options.clock.monotonic();
  const isLeaving = replica.isClosing || replica.next !== undefined;
  const pending = isLeaving ? [] : replica.pending.splice(0);
  const isRenewing = askedAt >= replica.renewAt;
  const wantsState = (isRenewing || needsState(replica)) && askedAt >= replica.stateAt;
  const { reports, confirm } = replica.own.ended(askedAt);
  replica.reportAt = Number.POSITIVE_INFINITY;
  const { waiting } = replica;
  const known = common(replica);
  // [7] This command may free the slot also when its reply is lost. So the escrow is not used from now on.
  if (isLeaving) Object.assign(replica, { slot: undefined, quotas: [] });
  const reply = await ask(replica, {
    kind: "sync",
    ...known,
    ended: reports,
    takes: pending.map(({ take }) => take),
    waiting: waitingToReport(replica),
    isLeaving,
    digestAges: isRenewing ? digestAges(replica.windows) : undefined,
    wantsState,
    perDay: wantsState ? [...replica.config.perDay] : [],
  });
  if (reply?.kind === "left") return leave(replica, confirm);
  if (reply?.kind !== "synced") return giveUp(replica, pending, reply);
  confirm();
  if (replica.waiting === waiting) replica.isWaitingReported = true;
  if (wantsState) replica.stateAt = askedAt + STATE_MS;
  update(replica, reply, { askedAt, isRenewing });
  answer(replica, pending, reply.results);
  notifyOfRoom(replica, wantsState);
  return true;
}

/** The calls that wait here. An empty queue is reported once. */
function waitingToReport({
  waiting,
  isWaitingReported,
}: Replica): (readonly [string, Priority, number])[] | undefined {
  if (waiting.length === 0 && isWaitingReported) return undefined;
  return waiting.map(({ app, priority, count }) => [app, priority, count]);
}

/** The command has failed, or Redis does not know this replica any more. */
function giveUp(replica: Replica, pending: readonly Pending[], reply: Reply | undefined): false {
  const now = replica.options.clock.monotonic();
  // Redis may have granted these permits. They are released.
  replica.reportAt = now;
  for (const { take } of pending) replica.own.end(take.id, take.app, now, undefined);
  if (reply?.kind === "late") failed(replica, new Error("a command arrived late"));
  replica.isJoined = false;
  const until = now + RETRY_MS;
  for (const { take, request, resolve } of pending)
    resolve(
      replica.isCutOff ? decideAlone(replica, take, request) : { kind: "wait", until, reason: "joining" },
    );
  return false;
}

function update(
  replica: Replica,
  reply: Extract<Reply, { kind: "synced" }>,
  { askedAt, isRenewing }: { readonly askedAt: number; readonly isRenewing: boolean },
): void {
  const { clock, leaseMs } = replica.options;
  if (replica.own.hasEnded()) replica.reportAt = Math.min(replica.reportAt, clock.monotonic() + REPORT_MS);
  Object.assign(replica, { acknowledgedAt: askedAt, quotas: reply.quotas, counts: reply.windows });
  replica.opensAt = clock.monotonic() + reply.opensInMs;
  if (reply.digest && replica.lastReply) replica.digest = { counts: reply.digest, ...replica.lastReply };
  if (reply.state) {
    Object.assign(replica, { described: reply.state, describedAt: clock.monotonic() });
    replica.granted.clear();
  }
  if (!isRenewing) return;
  replica.renewAt = askedAt + (replica.slot === undefined ? leaseMs : leaseMs / 4);
  // A replica without a slot asks for one again.
  if (replica.slot === undefined) replica.isJoined = false;
  replica.own.forget(askedAt - settingsOf(replica).keepMs);
}

function answer(replica: Replica, pending: readonly Pending[], results: readonly TakeResult[]): void {
  const now = replica.options.clock.monotonic();
  for (const [index, { take, request, resolve }] of pending.entries()) {
    const result = results[index];
    if (result === undefined)
      throw new Error("the script returned fewer results than permits were requested");
    if (result.isGranted === true) {
      replica.own.enter(take, { now, latest: now + countMs(replica), isKnown: true });
      replica.granted.set(take.app, (replica.granted.get(take.app) ?? 0) + 1);
      resolve({ kind: "permit", permit: permitOf(replica, take.id, request, now) });
    } else {
      replica.remainingAtRefusal = remainingIn(replica);
      resolve({ kind: "wait", until: now + result.inMs, reason: result.reason });
    }
  }
}

const remainingIn = ({ windows, counts }: Replica): number[] =>
  windows.map(({ limit }, index) =>
    Math.max(0, limit - (counts[index]?.[0] ?? 0) - (counts[index]?.[1] ?? 0)),
  );

/** Notifies the queue when more remains than when a permit was last refused, or when the described state is new. */
function notifyOfRoom(replica: Replica, hasState: boolean): void {
  const { remainingAtRefusal } = replica;
  if (remainingAtRefusal === undefined) {
    if (hasState) replica.changed();
    return;
  }
  const isMore = remainingIn(replica).some((left, index) => left > (remainingAtRefusal[index] ?? 0));
  // Nothing waits any more.
  if (isMore || replica.waiting.length === 0) replica.remainingAtRefusal = undefined;
  if (isMore || hasState) replica.changed();
}

/** Redis has confirmed that the slot is free. This process stops, or joins with another configuration. */
function leave(replica: Replica, confirm: () => void): boolean {
  confirm();
  Object.assign(replica, { isJoined: false, slot: undefined, quotas: [], counts: [], described: undefined });
  if (replica.isClosing) replica.isClosed = true;
  if (replica.next === undefined) return true;
  replica.config = replica.next;
  replica.windows = escrowWindows(replica.config.windows, replica.options);
  replica.opensAt = replica.options.clock.monotonic() + SETTLE_MS;
  Object.assign(replica, { next: undefined, digest: undefined });
  return true;
}

async function replicas(replica: Replica, dead: string | undefined): Promise<readonly ReplicaSlot[]> {
  if (replica.lastReply === undefined) throw new Error("Redis has not answered yet");
  const reply = await replica.options.ask(
    { kind: "replicas", ...common(replica), dead },
    settingsOf(replica),
  );
  if (reply.kind !== "replicas") throw new Error("Redis does not answer in time");
  return reply.replicas;
}

function acquire(replica: Replica, request: PermitRequest, ignoresLimits: boolean): Promise<Acquired> {
  const { clock } = replica.options;
  const now = clock.monotonic();
  const take = takeOf(replica, request, ignoresLimits);
  if (replica.isClosing) return Promise.resolve({ kind: "wait", until: now + DAY_MS, reason: "joining" });
  if (replica.isReachable)
    return new Promise((resolve) => {
      replica.pending.push({ take, request, resolve });
      wake(replica);
    });
  if (replica.isCutOff) return Promise.resolve(decideAlone(replica, take, request));
  return Promise.resolve({ kind: "wait", until: now + RETRY_MS, reason: "joining" });
}

async function close(replica: Replica): Promise<void> {
  const { clock, timeoutMs } = replica.options;
  replica.isClosing = true;
  const giveUpAt = clock.monotonic() + 2 * timeoutMs;
  while (
    !replica.isClosed &&
    clock.monotonic() < giveUpAt &&
    (replica.isJoined || replica.own.hasUploads())
  ) {
    const turned = new Promise<void>((resolve) => (replica.onTurn = resolve));
    wake(replica);
    await turned;
    if (!replica.isReachable) await pause(clock, RETRY_MS / 4);
  }
  replica.isClosed = true;
  replica.cancelTimer();
  const until = clock.monotonic() + DAY_MS;
  for (const { resolve } of replica.pending.splice(0)) resolve({ kind: "wait", until, reason: "joining" });
}
