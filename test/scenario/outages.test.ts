/**
 * Executes the last table of docs/runbook.md: what a caller gets in each state of API, budget and store. Whatever is down, the
 * gateway serves every answer that it has, with its age.
 */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import type { Fault } from "../../src/sandbox/control/faults.ts";
import { cacheStatus, problemCode, type Reply } from "../support/ask.ts";
import { expectShared, LISTING_ID, startGateway, type TestGateway } from "../support/gateway.ts";
import { type RedisServer, redisForTest } from "../support/redis.ts";
import { createLeapingClock } from "../support/stepping-clock.ts";

const FRESH = "/listings?areaId=76&limit=5";
const EXPIRED = "/sold?areaId=76&limit=5";
/** The last but one is not there. */
const ALSO_EXPIRED = [
  "/areas?q=Nacka",
  `/listings/${LISTING_ID}`,
  "/sold/1",
  `/cache/primary_${LISTING_ID}_70x47.jpg`,
];
const NEVER_ASKED = "/listings?areaId=1&limit=1";

/** @param maxWaitForFresh long, so that a busy machine does not get the stale answer instead of a new one */
const settingsWith = (maxWaitForFresh = "10s", headerTimeout = "5s"): string => `
upstream: { headerTimeout: ${headerTimeout}, retryDelay: 1ms }
cache: { ttl: { listings: 30m, sold: 1m, areas: 1m, records: 1m, images: 1m }, negativeTtl: 1m, staleWhileRevalidate: 10s, maxWaitForFresh: ${maxWaitForFresh} }
redis: { timeout: 500ms }
`;

/** A row of the table: the settings at the start, and what happens after two answers were cached. */
interface State {
  readonly settings?: string;
  readonly budget?: string;
  readonly app?: string;
  readonly fault?: Fault;
  readonly isUpstreamGone?: boolean;
  readonly redis?: (server: RedisServer) => Promise<unknown>;
}

/** What is cached at the start, but for the thumbnail. */
const SPENT = "5/30d";
const dies = (server: RedisServer): Promise<unknown> => server.kill();

/** By the first column of the table. */
const STATES: Readonly<Record<string, State>> = {
  "all is well": {},
  "the API is slow": { settings: settingsWith("500ms", "2s"), fault: { hang: "headers" } },
  "the API fails (500, 503)": { fault: { status: 500 } },
  "the API's answer cannot be used": { fault: { wrongJson: true } },
  "the API cannot be reached": { isUpstreamGone: true },
  "the API asks to slow down (429, 503 with `Retry-After`)": { fault: { status: 429, retryAfter: "30" } },
  "the API refuses our credentials (401, 403)": { fault: { status: 403 } },
  "the budget is spent": { budget: SPENT },
  "one app's share, or its `perDay`, is spent": {
    settings: `${settingsWith()}apps: [{ id: web, perDay: 5 }]`,
    app: "web",
  },
  "Redis is slow or down": { redis: dies },
  "Redis has lost its data": { redis: (server) => server.command("FLUSHALL") },
  "the API cannot be reached, and the budget is spent": { budget: SPENT, isUpstreamGone: true },
  "the API cannot be reached, and Redis is down": { isUpstreamGone: true, redis: dies },
  "the API cannot be reached, Redis is down, and the budget is spent": {
    budget: SPENT,
    isUpstreamGone: true,
    redis: dies,
  },
};

/** States of a process and its files; test/faults executes these rows. */
const OF_PROCESSES = [
  "the SQLite file is full, unwritable or broken",
  "a replica is killed",
  "a replica is stopping",
];

/** The cells of each row, by the first one. */
const ROWS = new Map(
  readFileSync("docs/runbook.md", "utf8")
    .split("| State |")[1]
    ?.split("\n\n")[0]
    ?.split("\n")
    .slice(2)
    .map((row) => row.split("|").map((cell) => cell.trim()))
    .map(([, state = "", ...cells]) => [state, cells.slice(0, 2)]),
);

/** What a caller got, in the words of the table. */
function inWords(reply: Reply): string {
  if (reply.status !== 200 && reply.status !== 404) return `${reply.status} \`${problemCode(reply)}\``;
  const { hit, ttl, detail } = cacheStatus(reply);
  if (hit === undefined) return "a new answer";
  return Number(ttl) < 0 ? `\`detail=${String(detail)}\`` : "the answer";
}

async function bringAbout(
  { fault, isUpstreamGone, redis }: State,
  gateway: TestGateway,
  server?: RedisServer,
) {
  if (fault !== undefined) gateway.sandbox.faults.add(fault);
  if (isUpstreamGone) await gateway.sandbox.close();
  if (server !== undefined) await redis?.(server);
}

describe("the table in docs/runbook.md", () => {
  it("has a row for each state that this test or test/faults executes", () => {
    expect([...ROWS.keys()].toSorted()).toEqual([...Object.keys(STATES), ...OF_PROCESSES].toSorted());
  });

  it.each(Object.entries(STATES))("%s", async (name, state) => {
    const redis = state.redis && (await redisForTest());
    const clock = createLeapingClock();
    const gateway = await startGateway({
      clock,
      settings: state.settings ?? settingsWith(),
      ...(redis && { redis }),
      ...(state.budget !== undefined && { env: { BUDGET: state.budget } }),
    });
    if (redis !== undefined) await expectShared(gateway);
    const get = async (path: string) => {
      const from = clock.now();
      const reply = await gateway.get(path, { headers: { "x-app-id": state.app ?? "" } });
      return { reply, from, to: clock.now() };
    };
    const latest = new Map<string, Awaited<ReturnType<typeof get>>>();
    for (const path of [FRESH, EXPIRED, ...ALSO_EXPIRED]) latest.set(path, await get(path));
    /** Every answer that was cached is still served, new or with its age. @returns which, in the words of the table */
    async function askAgain(path: string): Promise<string> {
      const [before, now] = [latest.get(path)!, await get(path)];
      const words = inWords(now.reply);
      expect([path, words, now.reply.status]).toEqual([path, words, before.reply.status]);
      if (words === "a new answer") latest.set(path, now);
      else {
        expect(now.reply.text).toBe(before.reply.text);
        const age = Number(now.reply.headers.age);
        expect(age).toBeGreaterThanOrEqual(Math.floor((now.from - before.to) / 1_000));
        expect(age).toBeLessThanOrEqual((now.to - before.from) / 1_000);
      }
      return words;
    }
    // Callers get an answer before it is in Redis. Until it is, others may join its flight.
    await gateway.landed();
    clock.leap(100_000);
    await bringAbout(state, gateway, redis);

    const [ofStale, ofNothing] = ROWS.get(name) ?? [];
    expect(await askAgain(FRESH)).toBe("the answer");
    expect(ofStale).toContain(await askAgain(EXPIRED));
    const { reply } = await get(NEVER_ASKED);
    expect(ofNothing).toContain(inWords(reply));
    if (reply.status === 503 || reply.status === 429) expect(reply.headers["retry-after"]).toMatch(/^\d+$/);
    for (const path of latest.keys()) await askAgain(path);
  });
});
