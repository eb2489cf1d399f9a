/** What lies between a replica and the shared budget: delays, lost questions, lost answers, outages. */
import type { Terms } from "../../src/ratelimit/arbiter.ts";
import type { News, SharedBudget } from "../../src/ratelimit/shared-budget.ts";
import type { Clock } from "../../src/process/clock.ts";
import type { Dice } from "../support/dice.ts";
import type { SharedModel } from "./shared-model.ts";

/** When a client stops waiting for an answer. */
const TIMEOUT_MS = 400;

/** How things are at the moment, between all replicas and the server. */
export interface Weather {
  /** The longest that a message takes, each way. */
  slowestMs: number;
  /** How likely it is that a question, or an answer, gets lost. */
  loss: number;
  /** How likely it is that one piece of news gets lost. */
  newsLoss: number;
  /** The server is there. */
  isUp: boolean;
}

export interface Link {
  readonly shared: SharedBudget;
  /** News on its way to the replica; it arrives in order. */
  readonly tell: (news: News) => void;
  /** Whether this replica can reach the server. */
  isUp: boolean;
  /** It hears no news: the connection for them broke first. */
  isDeaf: boolean;
  /** The replica has died: nothing reaches it any more. */
  isDead: boolean;
  /** It has joined; until then nothing goes wrong: one that starts in the dark is a hole that is accepted. */
  hasJoined: boolean;
  /** The server has been told of everything that the replica knew then. */
  toldAt: number;
}

export interface LinkOptions {
  readonly clock: Clock;
  /** The replica's own: it may stand still. */
  readonly own: Clock;
  readonly dice: Dice;
  readonly weather: Weather;
  readonly model: SharedModel;
  readonly terms: Terms;
  readonly hear: (news: News) => void;
}

export function createLink({ clock, own, dice, weather, model, terms, hear }: LinkOptions): Link {
  let newsUntil = 0;
  const delay = (): number => dice.between(0, link.hasJoined ? weather.slowestMs : 20);
  const passes = (): boolean => !link.hasJoined || (link.isUp && weather.isUp && !dice.chance(weather.loss));

  function call<T>(operation: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const isRefused = (!link.isUp || !weather.isUp) && dice.chance(0.5);
      const stopWaiting = own.after(isRefused ? 1 : TIMEOUT_MS, () => {
        if (!link.isDead) reject(new Error("no answer"));
      });
      if (isRefused) return;
      // What was given up may still arrive, and be done.
      clock.after(delay(), () => {
        if (!passes()) return;
        const answer = operation();
        own.after(delay(), () => {
          if (!passes() || link.isDead) return;
          stopWaiting();
          resolve(answer);
        });
      });
    });
  }

  const link: Link = {
    isUp: true,
    isDeaf: false,
    isDead: false,
    hasJoined: false,
    toldAt: Number.NEGATIVE_INFINITY,
    shared: {
      take: (request) => call(() => model.take(terms, request)),
      settle: (asker, ends) => call(() => model.settle(terms, asker, ends)),
      async look(asker, after) {
        const reply = await call(() => model.look(terms, asker, after));
        if (reply.kind === "news") link.hasJoined = true;
        return reply;
      },
      async join(replica, known) {
        const toldAt = clock.monotonic();
        const brought = await call(() => model.bring(replica, known));
        link.toldAt = toldAt;
        return { ...brought, sends: await call(() => model.read()) };
      },
      leave: (asker) => call(() => model.leave(asker)),
    },
    tell(news) {
      if (!link.isUp || link.isDeaf || dice.chance(weather.newsLoss)) return;
      newsUntil = Math.max(newsUntil, clock.monotonic() + delay());
      own.after(newsUntil - clock.monotonic(), () => {
        if (link.isUp && !link.isDead) hear(news);
      });
    },
  };
  return link;
}
