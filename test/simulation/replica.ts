/** A replica of the gateway, as far as the budget is concerned: apps that want to send, and the sends. */
import type { Allowance, Grant, Wish } from "../../src/ratelimit/allowance.ts";
import type { Candidate, Terms } from "../../src/ratelimit/arbiter.ts";
import { createSharedAllowance } from "../../src/ratelimit/shared-allowance.ts";
import type { News } from "../../src/ratelimit/shared-budget.ts";
import { createTurns } from "../../src/ratelimit/turns.ts";
import { createWaitingLine } from "../../src/ratelimit/waiting-line.ts";
import type { Priority, SendEnd, SlowDownCause } from "../../src/types.ts";
import { type Clock, pause } from "../../src/process/clock.ts";
import type { Dice } from "../support/dice.ts";
import { createLink, type Link, type Weather } from "./network.ts";
import type { SharedModel } from "./shared-model.ts";
import type { Watch } from "./watch.ts";

/** More do not wait in a replica for one kind of place. */
const LONGEST_LINE = 1_000;

/** A send that reached the upstream. */
export interface Arrival {
  readonly at: number;
  readonly app: string;
  readonly priority: Priority;
  readonly replica: string;
  readonly id: string;
  /** Since when it was wanted, and when it departed. */
  readonly askedAt: number;
  readonly sentAt: number;
}

/** What the upstream does, and how long the way there takes. */
export interface Upstream {
  /** The longest way there. */
  slowestMs: number;
  /** How likely it is that a send never gets there. */
  loss: number;
  /** How likely it is that it asks to be left alone. */
  slowDown: number;
  /** For one of which reasons. */
  causes: readonly SlowDownCause[];
  readonly arrived: (arrival: Arrival) => void;
}

export interface Replica {
  readonly name: string;
  readonly link: Link;
  readonly terms: Terms;
  readonly hear: (news: News) => void;
  readonly check: () => void;
  /** Whether it has sent something, while it was cut off, that it has not told. */
  readonly hasSecrets: () => boolean;
  /** So many more sends are wanted. */
  readonly want: (candidate: Candidate, sends: number) => void;
  /** Nothing is wanted any more. */
  readonly drop: () => void;
  readonly wanted: () => number;
  /** Takes what it can get for one, sends nothing, and gives it all back when that is called. */
  readonly hold: (candidate: Candidate) => Promise<() => void>;
  /** It stands still for a while, as a process does that is not let run. */
  readonly stall: (ms: number) => void;
  /** When it has asked in vain, and what it was promised then. */
  readonly promises: { at: number; forMs: number }[];
  readonly kill: () => void;
  readonly isStopping: () => boolean;
  /** Resolves when it has stopped in good order. */
  readonly stop: () => Promise<void>;
}

export interface ReplicaOptions {
  readonly name: string;
  readonly terms: Terms;
  readonly replicas: number;
  readonly degradedForMs: number;
  readonly clock: Clock;
  /** How far this replica's clock is ahead. */
  readonly offsetMs: number;
  readonly dice: Dice;
  readonly weather: Weather;
  readonly model: SharedModel;
  readonly watch: Watch;
  readonly upstream: Upstream;
  readonly note: (text: string) => void;
  /** It cannot go on: there is an error in it. */
  readonly failed: (error: unknown) => void;
}

interface Waiter {
  readonly wish: Wish;
  readonly askedAt: number;
}

export function startReplica(options: ReplicaOptions): Replica {
  const { name, terms, dice, upstream, note } = options;
  const base = options.clock;
  let isDead = false;
  let awakeAt = Number.NEGATIVE_INFINITY;
  const stopping = new AbortController();
  const onTheirWay = new Set<string>();
  let aloneAt = Number.NEGATIVE_INFINITY;
  const clock: Clock = {
    now: () => base.now() + options.offsetMs,
    monotonic: () => base.monotonic() + options.offsetMs,
    after(delayMs, callback) {
      let cancel = base.after(delayMs, run);
      function run(): void {
        if (base.monotonic() < awakeAt) cancel = base.after(awakeAt - base.monotonic(), run);
        else if (!isDead) callback();
      }
      return () => cancel();
    },
  };
  const link = createLink({ ...options, own: clock, hear: (news) => allowance.hear(news) });
  const allowance = createSharedAllowance({
    ...options,
    origin: "api",
    shared: link.shared,
    clock,
    replica: name,
    degradedShare: 1 / options.replicas,
    report: (message, fields) => note(`${name}: ${message} ${JSON.stringify(fields)}`),
  });
  const line = createWaitingLine<Waiter>();
  const waiting = new Map<string, number>();
  const promises: Replica["promises"] = [];
  const watched: Allowance = {
    ...allowance,
    async take(wishes) {
      const taken = await allowance.take(wishes);
      if (taken.kind === "wait") promises.push({ at: base.monotonic(), forMs: taken.forMs });
      // Now and then who wanted it has gone.
      else if (dice.chance(0.03)) withdraw(taken.grant.wish);
      return taken;
    },
  };
  const turns = createTurns({ allowance: watched, line, clock, mayGo: () => true, isUnlimited: () => false });
  allowance.attach({ queued: () => line.queued(), changed: turns.changed });
  let wake = (): void => undefined;

  /** As the throttle does, but for the limit to how many are on their way at once. */
  async function keepSending(): Promise<void> {
    while (!stopping.signal.aborted) {
      const departure = await turns.next();
      if (departure !== undefined) send(departure.grant, departure.waiter);
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  }

  function withdraw(wish: Wish): void {
    const waiter = line.all().find((other) => other.wish === wish);
    if (waiter !== undefined && line.leave(waiter)) count(wish, -1);
  }

  function count(candidate: Candidate, more: number): void {
    waiting.set(kindOf(candidate), (waiting.get(kindOf(candidate)) ?? 0) + more);
  }

  function drop(): void {
    for (const waiter of line.all()) line.leave(waiter);
    waiting.clear();
    turns.changed();
  }

  function send(grant: Grant, { askedAt }: Waiter): void {
    count(grant.wish, -1);
    onTheirWay.add(grant.id);
    const wayMs = dice.between(0, upstream.slowestMs);
    const isLost = dice.chance(upstream.loss);
    const { mode } = allowance.overview();
    if (mode === "cut-off") {
      aloneAt = base.monotonic();
      options.watch.grantedAlone(grant.id, grant.wish, terms, name);
    }
    note(`${name}: sends ${grant.id} (${mode}), which arrives ${wayMs} ms later`);
    const { app, priority } = grant.wish;
    const sent = { id: grant.id, app, priority, replica: name, askedAt, sentAt: base.monotonic() };
    // On its way it lives on without the replica.
    base.after(wayMs, () => {
      if (!isLost) upstream.arrived({ ...sent, at: base.monotonic() });
    });
    const startedAt = clock.monotonic();
    const headMs = wayMs + dice.between(0, Math.min(30, upstream.slowestMs));
    const bodyMs = dice.between(0, 60);
    clock.after(headMs, () => {
      const arrivedAfterMs = clock.monotonic() - startedAt;
      clock.after(bodyMs, () => {
        onTheirWay.delete(grant.id);
        allowance.settle(grant, {
          ...endOf(isLost),
          arrivedAfterMs,
          durationMs: clock.monotonic() - startedAt,
        });
      });
    });
  }

  function endOf(isLost: boolean): Pick<SendEnd, "status" | "slowDown"> {
    if (!dice.chance(upstream.slowDown)) return { status: isLost ? "reset" : 200 };
    const slowDown = { cause: dice.pick(upstream.causes), forMs: undefined };
    return { status: isLost ? "reset" : 503, slowDown };
  }

  function join(candidate: Candidate, askedAt: number): void {
    const waiter: Waiter = { wish: { ...candidate, cause: "miss", query: "" }, askedAt };
    count(candidate, 1);
    if (line.stand(waiter, [waiter.wish])) turns.changed();
  }

  function want(candidate: Candidate, sends: number): void {
    const free = stopping.signal.aborted ? 0 : LONGEST_LINE - (waiting.get(kindOf(candidate)) ?? 0);
    const askedAt = base.monotonic();
    for (let more = Math.min(sends, free); more > 0; more--) join(candidate, askedAt);
    wake();
  }

  /** What comes while it stands still is looked at when it goes on. */
  function whenAwake(run: () => void): void {
    if (base.monotonic() < awakeAt) clock.after(0, run);
    else run();
  }

  keepSending().catch(options.failed);
  return {
    name,
    link,
    terms,
    hear: link.tell,
    check: () => whenAwake(allowance.check),
    hasSecrets: () => aloneAt > link.toldAt,
    want: (candidate, sends) => whenAwake(() => want(candidate, sends)),
    drop,
    wanted: () => line.all().length,
    async hold(candidate) {
      const held: Grant[] = [];
      for (;;) {
        const taken = await allowance.take([{ ...candidate, cause: "miss", query: "" }]);
        if (taken.kind === "wait") return () => held.forEach(allowance.giveBack);
        held.push(taken.grant);
      }
    },
    stall: (ms) => void (awakeAt = base.monotonic() + ms),
    promises,
    kill() {
      isDead = true;
      link.isDead = true;
      stopping.abort();
    },
    isStopping: () => stopping.signal.aborted,
    async stop() {
      stopping.abort();
      drop();
      while (onTheirWay.size > 0) await pause(clock, 20);
      await allowance.close();
      isDead = true;
      link.isDead = true;
    },
  };
}

const kindOf = ({ app, priority, resource }: Candidate): string => `${app} ${priority} ${resource}`;
