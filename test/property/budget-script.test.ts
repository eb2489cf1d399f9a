/**
 * The script that decides for all replicas (src/budget/lua) against the statement of its rules
 * (src/ratelimit/arbiter.ts): the same history is played on both, for one replica, and each answer has to be
 * the same; and so has what a second replica predicts that only follows what is told of it
 * (src/ratelimit/view.ts).
 *
 * Three things are not compared, because they are meant to differ:
 *
 * - An end that is told when the lease is over: the script still takes the instant it names, which is the
 *   better one; the arbiter has forgotten by then which send that place belonged to, and keeps the later one.
 * - A limit of which nothing is left: the arbiter says "never", the script says when to look again, as what
 *   is held back for others may come free.
 * - Sends that are let through whatever the limits say: for the script who sends also asks, and so is about.
 */
import fc from "fast-check";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { Wish } from "../../src/ratelimit/allowance.ts";
import {
  type Candidate,
  decide,
  expect as predict,
  giveBack,
  newStanding,
  settle,
  type Standing,
  type Terms,
} from "../../src/ratelimit/arbiter.ts";
import { endReport, unsentReport } from "../../src/ratelimit/ends.ts";
import { createRedisBudget } from "../../src/ratelimit/redis-budget.ts";
import { BUDGET_SCRIPTS } from "../../src/ratelimit/redis-scripts.ts";
import type { SharedBudget } from "../../src/ratelimit/shared-budget.ts";
import { createView, type View } from "../../src/ratelimit/view.ts";
import { PRIORITIES, type SendEnd } from "../../src/types.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";

const APPS = ["web", "batch", "mobile", "guest"] as const;
const LEASE_MS = 700;
const NEWS_MS = 4;

/** What happens next, and how long after what happened before. */
type Event = { readonly afterMs: number } & (
  | { readonly kind: "take"; readonly wishes: readonly Wish[] }
  /** Of the sends on their way, this one ends; `arrivedPart`: how much of its time it took to arrive. */
  | { readonly kind: "end"; readonly which: number; readonly arrivedPart: number; readonly how: How }
);

type How = Pick<SendEnd, "status" | "slowDown"> | "unsent";

const wish: fc.Arbitrary<Wish> = fc.record({
  app: fc.constantFrom(...APPS),
  priority: fc.constantFrom(...PRIORITIES),
  resource: fc.constantFrom("listings", "sold"),
  cause: fc.constant("miss"),
  query: fc.constant("0"),
});

const slowDown = fc.record({
  cause: fc.constantFrom("too-many-requests", "unavailable"),
  forMs: fc.option(fc.integer({ min: 0, max: 4_000 }), { nil: undefined }),
});

const how: fc.Arbitrary<How> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ status: 200 }) },
  { weight: 2, arbitrary: fc.constant("unsent" as const) },
  { weight: 1, arbitrary: fc.constant({ status: "reset" as const }) },
  { weight: 1, arbitrary: slowDown.map((told) => ({ status: 503, slowDown: told })) },
  {
    weight: 2,
    arbitrary: fc.constant({
      status: "unreachable" as const,
      slowDown: { cause: "unreachable" as const, forMs: undefined },
    }),
  },
);

const afterMs = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 40 }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 600 }) },
  { weight: 1, arbitrary: fc.constantFrom(999, 1_000, 1_001, 5_000, 61_000, 86_400_000) },
);

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("take"),
      afterMs,
      wishes: fc.array(wish, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("end"),
      afterMs,
      which: fc.nat(20),
      arrivedPart: fc.double({ min: 0, max: 1, noNaN: true }),
      how,
    }),
  },
);

const history = fc.array(event, { minLength: 10, maxLength: 60, size: "max" });

const appTerms = fc.record({
  weight: fc.integer({ min: 1, max: 4 }),
  perDay: fc.option(fc.integer({ min: 1, max: 12 }), { nil: null, freq: 4 }),
});

const window = (name: string, windowMs: number, mostLimit: number) =>
  fc.integer({ min: 1, max: mostLimit }).map((limit) => ({ name, limit, windowMs }));

const terms: fc.Arbitrary<Terms> = fc
  .record({
    windows: fc.oneof(
      fc.tuple(window("1s", 1_000, 6)),
      fc.tuple(window("1s", 1_000, 6), window("5s", 5_000, 14)),
    ),
    reserve: fc.constantFrom(0, 0.2, 0.5),
    apps: fc.tuple(appTerms, appTerms, appTerms),
    maxCoolOffMs: fc.constantFrom(1_500, 6_000),
  })
  .map(({ apps: [web, batch, mobile], ...rest }) => ({
    ...rest,
    // The fourth asks without being known.
    apps: new Map(Object.entries({ web, batch, mobile })),
    leaseMs: LEASE_MS,
  }));

/** Who decides, at an instant. */
interface Decider {
  /** @returns the index of who may send, or how long to wait, as text */
  readonly take: (id: string, wishes: readonly Wish[], now: number) => Promise<string> | string;
  readonly end: (send: Sent, how: How, arrivedAt: number, now: number) => Promise<void> | void;
}

/** Every candidate there can be. */
const CANDIDATES: readonly Candidate[] = APPS.flatMap((app) =>
  PRIORITIES.flatMap((priority) =>
    (["listings", "sold"] as const).map((resource) => ({ app, priority, resource })),
  ),
);

/** How long each candidate would wait behind so many others, and for what. */
function predictions(standing: Standing, current: Terms, now: number): string[] {
  return CANDIDATES.flatMap((candidate) =>
    [0, 3].map((ahead) => {
      const { at, why } = predict(standing, current, candidate, { ahead, ownAhead: ahead }, now);
      const { app, priority, resource } = candidate;
      return `${app}/${priority}/${resource} behind ${ahead}: ${at - now} ${why}`;
    }),
  );
}

interface Sent {
  readonly id: string;
  readonly wish: Wish;
  readonly at: number;
}

function endOf(how: Exclude<How, "unsent">, { at }: Sent, arrivedAt: number, now: number): SendEnd {
  return { ...how, arrivedAfterMs: arrivedAt - at, durationMs: now - at };
}

function byArbiter(current: Terms): Decider & { readonly standing: Standing } {
  const standing = newStanding();
  return {
    standing,
    take(id, wishes, now) {
      const decision = decide(standing, current, { idOf: (app) => `${id}@${app}`, candidates: wishes }, now);
      return decision.kind === "granted" ? `granted ${decision.index}` : `wait ${decision.at - now}`;
    },
    end(send, how_, arrivedAt, now) {
      const { id, wish: sent } = send;
      if (how_ === "unsent") return giveBack(standing, { id, app: sent.app });
      const end = endOf(how_, send, arrivedAt, now);
      settle(standing, current, { id, app: sent.app, resource: sent.resource }, { end, arrivedAt }, now);
    },
  };
}

async function byScript(shared: SharedBudget): Promise<Decider> {
  const replica = "one";
  const { gen } = await shared.join(replica, { sends: [], others: [] });
  let known = 0;
  const asker = () => ({ replica, gen, known, mostSeen: 1, queued: [] });
  return {
    async take(id, wishes) {
      const reply = await shared.take({
        ...asker(),
        id,
        wishes,
        anyway: false,
        share: 1,
        catchUpMs: NEWS_MS,
      });
      if (reply.kind === "granted") {
        known = reply.seq;
        return `granted ${reply.index}`;
      }
      return reply.kind === "wait" ? `wait ${reply.forMs}` : reply.kind;
    },
    async end(send, how_, arrivedAt, now) {
      const { id, wish: sent } = send;
      const report =
        how_ === "unsent"
          ? unsentReport(id, sent.app, sent.resource)
          : endReport({ id, wish: sent }, endOf(how_, send, arrivedAt, now));
      const reply = await shared.settle(asker(), [{ ...report, sinceArrivalMs: now - arrivedAt }]);
      expect(reply.kind).toBe("settled");
    },
  };
}

/** A replica that sends nothing itself. */
async function follower(shared: SharedBudget, current: Terms, monotonic: () => number): Promise<View> {
  const view = createView({
    terms: current,
    shared,
    replica: "two",
    replicas: 2,
    degradedShare: 0.5,
    monotonic,
    queued: () => [],
    onTooMany: () => undefined,
    onRelief: () => undefined,
  });
  await view.join([]);
  return view;
}

describe("the script answers as the arbiter does", () => {
  let redis: RedisServer;
  let client: Redis;
  let histories = 0;

  beforeAll(async () => {
    redis = await startRedis();
    client = new Redis({ port: redis.port, scripts: BUDGET_SCRIPTS, disableClientInfo: true });
  });
  afterAll(async () => {
    client.disconnect();
    await redis.close();
  });

  async function play(current: Terms, events: readonly Event[], followed: boolean): Promise<void> {
    let now = 1_800_000_000_000;
    const shared = createRedisBudget({
      run: (_operation, _key, command) => command(client),
      namespace: `${++histories}:`,
      origin: "api",
      terms: current,
      replicas: 1,
      degradedForMs: 60_000,
      ledger: { retentionMs: 86_400_000, maxRecords: 1_000 },
      redisNow: () => now,
    });
    const [stated, scripted] = [byArbiter(current), await byScript(shared)];
    const second = followed ? await follower(shared, current, () => now) : undefined;
    let sends: Sent[] = [];
    const log: string[] = [];
    for (const [index, happens] of events.entries()) {
      now += happens.afterMs;
      if (second !== undefined) {
        expect(await second.catchUp(() => true)).toBe(true);
        const predicted = predictions(second.mirror().standing, current, now);
        expect(predicted, log.join("\n")).toEqual(predictions(stated.standing, current, now));
      }
      sends = sends.filter(({ at }) => now < at + LEASE_MS);
      if (happens.kind === "take") {
        const { wishes } = happens;
        const [a, b] = [
          await stated.take(`${index}`, wishes, now),
          await scripted.take(`${index}`, wishes, now),
        ];
        const asked = wishes.map((one) => `${one.app}/${one.priority}/${one.resource}`).join(" ");
        log.push(`${now} take ${asked}: ${a}`);
        expect(b, log.join("\n")).toBe(a);
        const sent = a.startsWith("granted ") ? wishes[Number(a.slice(8))] : undefined;
        if (sent !== undefined) sends.push({ id: `${index}@${sent.app}`, wish: sent, at: now });
        continue;
      }
      const send = sends[happens.which % Math.max(1, sends.length)];
      if (send === undefined) continue;
      const arrivedAt = send.at + Math.round((now - send.at) * happens.arrivedPart);
      log.push(`${now} end of ${send.id}, arrived ${arrivedAt}: ${JSON.stringify(happens.how)}`);
      await stated.end(send, happens.how, arrivedAt, now);
      await scripted.end(send, happens.how, arrivedAt, now);
      sends = sends.filter((other) => other !== send);
    }
  }

  it("whatever happens", async () => {
    const numRuns = Number(process.env["RUNS"] ?? 400);
    await fc.assert(
      fc.asyncProperty(terms, history, (...played) => play(...played, false)),
      { numRuns },
    );
  });

  it("and a replica that follows predicts as it does", async () => {
    const numRuns = Number(process.env["RUNS"] ?? 400) / 4;
    await fc.assert(
      fc.asyncProperty(terms, history, (...played) => play(...played, true)),
      { numRuns },
    );
  });
});
