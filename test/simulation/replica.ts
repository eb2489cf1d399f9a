/** A replica of the gateway, as far as the budget is concerned: apps that want to send, and the sends. */
import type { Grant, Wish } from "../../src/budget/allowance.ts";
import type { Terms } from "../../src/budget/arbiter.ts";
import { createSharedAllowance } from "../../src/budget/shared-allowance.ts";
import type { News } from "../../src/budget/shared-budget.ts";
import type { Priority, SendEnd } from "../../src/exchange.ts";
import { type Clock, pause } from "../../src/platform/clock.ts";
import type { Dice } from "../support/dice.ts";
import { createLink, type Link, type Weather } from "./network.ts";
import type { SharedModel } from "./shared-model.ts";

/** A place that took longer to come is not used, as in src/budget/throttle.ts. */
const LONGEST_ASKING_MS = 1_000;

/** A send that reached the upstream. */
export interface Arrival {
  readonly at: number;
  readonly app: string;
  readonly replica: string;
  readonly id: string;
}

/** What the upstream does, and how long the way there takes. */
export interface Upstream {
  /** The longest way there. */
  slowestMs: number;
  /** How likely it is that a send never gets there. */
  loss: number;
  /** How likely it is that it asks to be left alone. */
  slowDown: number;
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
  /** So many more sends are wanted for an app. */
  readonly want: (app: string, priority: Priority, sends: number) => void;
  /** Nothing is wanted any more. */
  readonly drop: () => void;
  readonly wanted: () => number;
  /** How often it has asked in vain, and what it was promised last. */
  readonly promises: { at: number; forMs: number }[];
  readonly kill: () => void;
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
  readonly upstream: Upstream;
  readonly note: (text: string) => void;
}

export function startReplica(options: ReplicaOptions): Replica {
  const { name, terms, dice, upstream, note } = options;
  let isDead = false;
  const stopping = new AbortController();
  const onTheirWay = new Set<string>();
  let aloneAt = Number.NEGATIVE_INFINITY;
  const base = options.clock;
  const clock: Clock = {
    now: () => base.now() + options.offsetMs,
    steady: () => base.steady() + options.offsetMs,
    after: (delayMs, callback) =>
      base.after(delayMs, () => {
        if (!isDead) callback();
      }),
  };
  const link = createLink({ ...options, hear: (news) => allowance.hear(news) });
  const allowance = createSharedAllowance({
    ...options,
    origin: "api",
    shared: link.shared,
    clock,
    replica: name,
    degradedShare: 1 / options.replicas,
    report: (message, fields) => note(`${name}: ${message} ${JSON.stringify(fields)}`),
  });
  const demand = new Map<string, { readonly wish: Wish; sends: number }>();
  const promises: Replica["promises"] = [];
  let change = new AbortController();
  const changed = (): void => {
    const raised = change;
    change = new AbortController();
    raised.abort();
  };
  allowance.attach({
    changed,
    queued: () => [...demand.values()].map(({ wish, sends }) => ({ ...wish, length: sends })),
  });

  async function keepAsking(): Promise<void> {
    while (!stopping.signal.aborted) {
      const { signal } = change;
      const wishes = [...demand.values()].filter(({ sends }) => sends > 0).map(({ wish }) => wish);
      if (wishes.length === 0) {
        await pause(clock, 3_600_000, signal);
        continue;
      }
      const askedAt = clock.steady();
      const taken = await allowance.take(wishes);
      if (taken.kind === "wait") {
        promises.push({ at: base.steady(), forMs: taken.forMs });
        await pause(clock, taken.forMs, signal);
        continue;
      }
      const entry = demand.get(keyOf(taken.grant.wish));
      const isPrompt = clock.steady() - askedAt <= LONGEST_ASKING_MS;
      // Now and then who wanted it has gone.
      if (!isPrompt || entry === undefined || dice.chance(0.03)) {
        allowance.giveBack(taken.grant);
        continue;
      }
      entry.sends--;
      send(taken.grant);
    }
  }

  function send(grant: Grant): void {
    onTheirWay.add(grant.id);
    const wayMs = dice.between(0, upstream.slowestMs);
    const isLost = dice.chance(upstream.loss);
    const { mode } = allowance.overview();
    if (mode === "cut-off") aloneAt = base.steady();
    note(`${name}: sends ${grant.id} (${mode}), which arrives ${wayMs} ms later`);
    // On its way it lives on without the replica.
    base.after(wayMs, () => {
      if (!isLost) upstream.arrived({ at: base.steady(), app: grant.wish.app, replica: name, id: grant.id });
    });
    const headMs = wayMs + dice.between(0, Math.min(30, upstream.slowestMs));
    const durationMs = headMs + dice.between(0, 60);
    clock.after(durationMs, () => {
      onTheirWay.delete(grant.id);
      const slowDown: SendEnd["slowDown"] = dice.chance(upstream.slowDown)
        ? { cause: dice.pick(["too-many-requests", "unavailable", "unreachable"]), forMs: undefined }
        : undefined;
      const status = isLost ? "reset" : slowDown === undefined ? 200 : 503;
      allowance.settle(grant, {
        status,
        arrivedAfterMs: headMs,
        durationMs,
        ...(slowDown !== undefined && { slowDown }),
      });
    });
  }

  void keepAsking();
  return {
    name,
    link,
    terms,
    hear: link.tell,
    check: allowance.check,
    hasSecrets: () => aloneAt >= link.lookedAt,
    want(app, priority, sends) {
      const wish: Wish = { app, priority, resource: "listings", cause: "miss", query: "" };
      const entry = demand.get(keyOf(wish)) ?? { wish, sends: 0 };
      entry.sends = Math.min(entry.sends + sends, 500);
      demand.set(keyOf(wish), entry);
      changed();
    },
    drop: () => demand.clear(),
    wanted: () => [...demand.values()].reduce((sum, { sends }) => sum + sends, 0),
    promises,
    kill() {
      isDead = true;
      link.isDead = true;
      stopping.abort();
    },
    async stop() {
      stopping.abort();
      while (onTheirWay.size > 0) await pause(clock, 20);
      await allowance.close();
      isDead = true;
      link.isDead = true;
    },
  };
}

const keyOf = ({ app, priority }: Wish): string => `${app} ${priority}`;
