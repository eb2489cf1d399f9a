/** The arbiter on a clock of its own: apps that want to send, and when they did. */
import {
  type AppTerms,
  arrive,
  type Candidate,
  decide,
  type Decision,
  newStanding,
  settle,
  type Standing,
  type Terms,
} from "../../../src/ratelimit/arbiter.ts";
import type { Priority, SendEnd } from "../../../src/types.ts";
import type { Resource } from "../../../src/interface/resources.ts";

export const MINUTE = 60_000;
export const LEASE_MS = 5_000;

/** Apps by their weights, or by all that is said of them. */
export function termsOf(
  apps: Readonly<Record<string, number | AppTerms>>,
  changes: Partial<Omit<Terms, "apps">> = {},
): Terms {
  const known = Object.entries(apps).map(
    ([app, terms]) => [app, typeof terms === "number" ? { weight: terms, perDay: null } : terms] as const,
  );
  return {
    windows: [{ name: "1m", limit: 60, windowMs: MINUTE }],
    reserve: 0,
    leaseMs: LEASE_MS,
    maxCoolOffMs: 60_000,
    ...changes,
    apps: new Map(known),
  };
}

export function candidateOf(
  app: string,
  priority: Priority = "interactive",
  resource: Resource = "listings",
): Candidate {
  return { app, priority, resource };
}

export const OK: SendEnd = { status: 200, arrivedAfterMs: 0, durationMs: 0 };

/** An arbiter with its state. Instants are handed to it. */
export interface Bench {
  readonly standing: Standing;
  readonly terms: Terms;
  /** Ids are `1`, `2` and so on, in the order in which places were given. */
  readonly ask: (candidates: readonly Candidate[], now: number) => Decision;
  /** Sends as one of these apps as often as it may at this instant, each arriving at once. */
  readonly sendAll: (candidate: Candidate, most: number, now: number) => number;
  readonly end: (id: string, candidate: Candidate, end: SendEnd, now: number) => void;
}

export function createBench(terms: Terms): Bench {
  const standing = newStanding();
  let given = 0;
  const ask: Bench["ask"] = (candidates, now) => {
    const decision = decide(standing, terms, { idOf: () => `${given + 1}`, candidates }, now);
    if (decision.kind === "granted") given++;
    return decision;
  };
  return {
    standing,
    terms,
    ask,
    sendAll(candidate, most, now) {
      for (let sent = 0; sent < most; sent++) {
        if (ask([candidate], now).kind !== "granted") return sent;
        arrive(standing, { id: `${given}`, app: candidate.app }, now);
      }
      return most;
    },
    end(id, { app, resource }, end, now) {
      settle(standing, terms, { id, app, resource }, { end, arrivedAt: now }, now);
    },
  };
}

/** One that wants to send, over and over. */
export interface Sender extends Candidate {
  /** When it has its next request, after its last one went, or at first after the beginning; none any more. */
  readonly nextAfter: (sent: number) => number | undefined;
}

/** How a send of a sender fared. */
export interface Sent {
  readonly app: string;
  readonly askedAt: number;
  readonly at: number;
}

/** Has so many requests at once. */
export const queued = (candidate: Candidate, count: number): Sender => ({
  ...candidate,
  nextAfter: (sent) => (sent < count ? 0 : undefined),
});

/** Asks again so long after its last request went. */
export const oneByOne = (candidate: Candidate, count: number, gapMs: number, startMs = 0): Sender => ({
  ...candidate,
  nextAfter: (sent) => (sent >= count ? undefined : sent === 0 ? startMs : gapMs),
});

/**
 * Lets senders ask, each as soon as it has a request and then whenever it was told to, until a time.
 * Every send arrives `travelMs` after it was allowed.
 */
export function simulate(
  terms: Terms,
  senders: readonly Sender[],
  untilMs: number,
  travelMs = 0,
): readonly Sent[] {
  const bench = createBench(terms);
  const sent: Sent[] = [];
  const onTheirWay: { id: string; sender: Sender; at: number }[] = [];
  const asking = senders.map((sender) => ({ sender, count: 0, from: sender.nextAfter(0) ?? Infinity }));
  for (let now = 0; now <= untilMs;) {
    while ((onTheirWay[0]?.at ?? Infinity) <= now) {
      const arrived = onTheirWay.shift();
      if (arrived) bench.end(arrived.id, arrived.sender, OK, arrived.at);
    }
    const waiting = asking.filter(({ from }) => from <= now);
    const decision = bench.ask(
      waiting.map(({ sender }) => sender),
      now,
    );
    const one = decision.kind === "granted" ? waiting[decision.index] : undefined;
    if (one !== undefined) {
      sent.push({ app: one.sender.app, askedAt: one.from, at: now });
      onTheirWay.push({ id: `${sent.length}`, sender: one.sender, at: now + travelMs });
      const gapMs = one.sender.nextAfter(++one.count);
      one.from = gapMs === undefined ? Infinity : now + gapMs;
      continue;
    }
    const at = decision.kind === "wait" ? decision.at : now;
    const laterOnes = asking.map(({ from }) => from).filter((from) => from > now);
    now = Math.min(at, onTheirWay[0]?.at ?? Infinity, ...laterOnes);
  }
  return sent;
}

export function countsByApp(sent: readonly Sent[], from = 0, to = Infinity): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { app, at } of sent) {
    if (at >= from && at < to) counts[app] = (counts[app] ?? 0) + 1;
  }
  return counts;
}

/** How long each request of an app waited. */
export function waitsOf(sent: readonly Sent[], app: string): number[] {
  return sent.filter((each) => each.app === app).map(({ askedAt, at }) => at - askedAt);
}
