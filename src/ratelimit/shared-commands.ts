/**
 * The commands of a replica that shares limits, and what their replies change. The numbers in brackets refer to the table
 * of rules in shared-limiter.ts.
 */
import { StoreUnavailable } from "../errors.ts";
import type { Priority } from "../types.ts";
import { escrowUntil, digestAges, DRIFT, escrowWindows, mostGrantedIn } from "./escrow.ts";
import { DAY_MS } from "./limiter.ts";
import type {
  Common,
  DescribedState,
  Digest,
  KnownSend,
  Reply,
  Request,
  TakeResult,
} from "./redis-limiter.ts";
import { decideByEscrow, permitOf } from "./shared-permits.ts";
import {
  AWAY_MS,
  countMs,
  type Pending,
  type Replica,
  RETRY_MS,
  SETTLE_MS,
  settingsOf,
  STATE_MS,
} from "./shared-replica.ts";

/** How long ended calls wait for a common report. A permit is not free before a window has passed, so this costs little. */
export const REPORT_MS = 50;
/** Calls in one upload, so that no command takes long. */
const MOST_UPLOADED = 200;
/** Redis' clock has jumped when it is ahead of any possible time by more than this and more than a lease. */
const JUMP_MS = 1_000;

/** Whether a change of the counts matters to a call that waits, or was refused. */
export const needsState = ({ waiting, remainingAtRefusal }: Replica): boolean =>
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
export function failed(replica: Replica, error: unknown): void {
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
  for (const { take, request, resolve } of pending) resolve(decideByEscrow(replica, take, request));
  if (!wasCutOff) replica.changed();
}

/** @returns whether Redis answered */
export async function askTime(replica: Replica): Promise<boolean> {
  const reply = await ask(replica, { kind: "time", timeAtLeast: timeAtLeast(replica) });
  replica.isReachable = reply !== undefined;
  return replica.isReachable;
}

/** The earliest that Redis' time can be now. */
function timeAtLeast({ lastReply, options }: Replica): number | undefined {
  return lastReply && lastReply.time + (options.clock.monotonic() - lastReply.receivedAt);
}

export function common(replica: Replica): Common {
  return {
    timeAtLeast: timeAtLeast(replica),
    epoch: replica.epoch,
    slot: replica.slot,
    quotas: replica.quotas,
  };
}

/** Takes a slot, or takes the own one back, and uploads what Redis does not know. @returns whether that worked */
export async function join(replica: Replica): Promise<boolean> {
  const { clock } = replica.options;
  const askedAt = clock.monotonic();
  const { hasJumped, isCutOff, windows, config } = replica;
  const isFull = hasJumped || replica.epoch !== replica.serverEpoch;
  const keptMs = Math.max(config.perDay.size > 0 ? DAY_MS : 0, ...windows.map(({ ms }) => ms)) + JUMP_MS;
  const sends = replica.own.uploads(askedAt, isFull ? askedAt - keptMs : undefined);
  const mayClaim = replica.slot !== undefined && askedAt <= escrowUntil(replica, replica.options);
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

/**
 * Requests permits, reports what has changed, and renews the slot when that is due.
 * @returns whether Redis knows this replica
 */
export async function sync(replica: Replica): Promise<boolean> {
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
  if (reply.state) takeOverState(replica, reply.state);
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
      replica.isCutOff
        ? decideByEscrow(replica, take, request)
        : { kind: "wait", until, reason: "redis-away" },
    );
  return false;
}

/** Takes over what the reply to `sync` says about this replica and the windows. */
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
  if (!isRenewing) return;
  replica.renewAt = askedAt + (replica.slot === undefined ? leaseMs : leaseMs / 4);
  // A replica without a slot asks for one again.
  if (replica.slot === undefined) replica.isJoined = false;
  replica.own.forget(askedAt - settingsOf(replica).keepMs);
}

/** The described state counts all permits so far, also those of the same reply. */
function takeOverState(replica: Replica, described: DescribedState): void {
  Object.assign(replica, { described, describedAt: replica.options.clock.monotonic() });
  replica.granted.clear();
}

/** Resolves the requests for permits with their results. */
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
      resolve({ kind: "wait", until: now + result.waitMs, reason: result.reason });
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
  const isMore =
    remainingAtRefusal !== undefined &&
    remainingIn(replica).some((left, index) => left > (remainingAtRefusal[index] ?? 0));
  if (isMore || replica.waiting.length === 0) replica.remainingAtRefusal = undefined;
  if (isMore || hasState) replica.changed();
}

/** Redis has confirmed that the slot is free. This process stops, or joins with another configuration. */
function leave(replica: Replica, confirm: () => void): boolean {
  confirm();
  Object.assign(replica, { isJoined: false, counts: [], described: undefined });
  if (replica.isClosing) replica.isClosed = true;
  if (replica.next === undefined) return true;
  replica.config = replica.next;
  replica.windows = escrowWindows(replica.config.windows, replica.options);
  replica.opensAt = replica.options.clock.monotonic() + SETTLE_MS;
  Object.assign(replica, { next: undefined, digest: undefined });
  return true;
}
