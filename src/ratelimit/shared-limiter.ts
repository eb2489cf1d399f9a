/**
 * The hard limits of all replicas together. Redis decides while it answers. While it does not answer, each replica
 * decides by itself, by its own escrow.
 *
 * - A *slot* is the right of one replica to send without Redis. There are REPLICAS slots. A replica holds one by a lease.
 * - The *escrow* of a slot is a small part of each window. The slot may always spend it without Redis.
 * - The *part* of a slot is limit/REPLICAS. A replica may spend it when it has been cut off from Redis for a whole window.
 * - The *quota* of a slot is what Redis last confirmed that it may spend without Redis.
 * - A *short window* is at most `degradedForMs` long. Other windows are *long*.
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
 * | 5    | A command that arrives late has no effect.                                                   | lua       |
 * |      | While Redis does not answer, a replica only asks for the time.                               | commands  |
 * | 6    | A replica uploads the calls that it sent without Redis, in the step that renews its slot.    | lua       |
 * | 7    | A new holder of a slot inherits nothing. Redis confirms a quota only when it fits.           | lua       |
 * |      | A replica that gives its slot back stops using its escrow before it sends that command.      | commands  |
 * | 8    | A lapsed slot is free when its holder has certainly stopped and the holder's calls have left | lua       |
 * |      | the short windows. An operator can report that the holder is dead. A new process with the    |           |
 * |      | same address proves it.                                                                      |           |
 * | 9    | After a loss of data all slots count as lapsed. For the length of the shortest window, each  | lua       |
 * |      | slot gets only its quota. When Redis has no data or its clock may have jumped, it grants     |           |
 * |      | nothing at first, so that replicas that know more can report.                                |           |
 * | 10   | For a long window, Redis confirms how much each slot may spend without Redis, and reserves   | lua       |
 * |      | that amount.                                                                                 |           |
 * | 11   | When a holder does not return, the calls that it may have sent stay counted in the long      | lua       |
 * |      | windows. The permits in the last reply to the holder are counted in addition, because the    |           |
 * |      | holder may have sent other calls instead if it did not receive that reply.                   |           |
 * |      | A permit that Redis granted and that was released unused counts against the replica's own    | own-sends |
 * |      | quota until Redis has confirmed the release.                                                 |           |
 * | 12   | After a loss of data, the first replica that returns reports the counts that it last         | commands, |
 * |      | received, by age, and the most that Redis may have granted since. If Redis' clock has        | lua       |
 * |      | jumped, this report replaces the whole log.                                                  |           |
 * | 13   | Data that another server wrote, or an older copy, count as lost. Their calls stay counted.   | lua       |
 *
 * Only one command is under way at a time. It carries everything that there is to report and to request: permits, calls
 * that have ended, calls that wait. So commands cannot overtake each other, and many permits cost one round trip.
 */
import { pause } from "../process/clock.ts";
import { limitsText } from "../usage/rate-window.ts";
import { type Acquired, DAY_MS, type Limiter, type PermitRequest } from "./limiter.ts";
import type { ReplicaSlot } from "./redis-limiter.ts";
import { askTime, common, failed, join, needsState, REPORT_MS, sync } from "./shared-commands.ts";
import { decideByEscrow, permitWithoutRedis, stateOf, takeOf } from "./shared-permits.ts";
import { Replica, RETRY_MS, settingsOf, type SharedLimiterOptions } from "./shared-replica.ts";

export interface SharedLimiter extends Limiter {
  /** Redis may answer again: tries it now. */
  readonly check: () => void;
  /**
   * Returns the slots as Redis knows them. Rejects when Redis does not answer.
   * @param dead a process that is dead, as an operator reports; the number of its slot where the process is not known
   */
  readonly replicas: (dead?: string) => Promise<readonly ReplicaSlot[]>;
}

export function createSharedLimiter(options: SharedLimiterOptions): SharedLimiter {
  const replica = new Replica(options);
  if (options.admission === undefined) wake(replica);
  else void admit(replica, options.admission);
  return {
    acquire: (request) => acquire(replica, request, false),
    async acquireAnyway(request) {
      const acquired = await acquire(replica, request, true);
      return acquired.kind === "permit" ? acquired.permit : permitWithoutRedis(replica, request);
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
  if (replica.isClosing) return Promise.resolve({ kind: "wait", until: now + DAY_MS, reason: "redis-away" });
  if (replica.isReachable)
    return new Promise((resolve) => {
      replica.pending.push({ take, request, resolve });
      wake(replica);
    });
  if (replica.isCutOff) return Promise.resolve(decideByEscrow(replica, take, request));
  return Promise.resolve({ kind: "wait", until: now + RETRY_MS, reason: "redis-away" });
}

async function close(replica: Replica): Promise<void> {
  const { clock, timeoutMs } = replica.options;
  replica.isClosing = true;
  const giveUpAt = clock.monotonic() + 2 * timeoutMs;
  // If a command has failed, Redis may still count the slot as held. So this replica joins again, to give the slot back.
  while (
    !replica.isClosed &&
    clock.monotonic() < giveUpAt &&
    (replica.hasEverJoined || replica.own.hasUploads())
  ) {
    const turned = new Promise<void>((resolve) => (replica.onTurn = resolve));
    wake(replica);
    await turned;
    if (!replica.isReachable) await pause(clock, RETRY_MS / 4);
  }
  replica.isClosed = true;
  replica.cancelTimer();
  const until = clock.monotonic() + DAY_MS;
  for (const { resolve } of replica.pending.splice(0)) resolve({ kind: "wait", until, reason: "redis-away" });
}
