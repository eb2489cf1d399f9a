/** Executes the last table of docs/runbook.md: what a caller gets in each state of API, budget and store. */
import { readFileSync } from "node:fs";

import { describe, expect, it, onTestFinished } from "vitest";

import type { Fault } from "../../src/sandbox/control/faults.ts";
import type { Reply } from "../support/ask.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createLeapingClock } from "../support/stepping-clock.ts";
import { expectShared } from "../support/two-gateways.ts";

const FRESH = "/listings?areaId=76&limit=5";
const EXPIRED = "/sold?areaId=76&limit=5";
const NEVER_ASKED = "/listings?areaId=1&limit=1";

/** @param maxWaitForFresh long, so that a busy machine does not get the stale answer instead of a new one */
const settingsWith = (maxWaitForFresh = "10s", headerTimeout = "5s"): string => `
upstream: { headerTimeout: ${headerTimeout}, retryDelay: 1ms }
cache: { ttl: { listings: 30m, sold: 1m }, staleWhileRevalidate: { sold: 10s }, maxWaitForFresh: ${maxWaitForFresh} }
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

const SPENT = "2/30d";
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
    settings: `${settingsWith()}apps: [{ id: web, perDay: 2 }]`,
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
  if (reply.status !== 200) return `${reply.status} \`${problemCode(reply)}\``;
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
    const server = state.redis && (await startRedis());
    if (server !== undefined) onTestFinished(() => server.close());
    const clock = createLeapingClock();
    const options: TestGatewayOptions = {
      clock,
      sandbox: { now: clock.now },
      settings: state.settings ?? settingsWith(),
      env: {
        ...(state.budget !== undefined && { BUDGET: state.budget }),
        ...(server && { REDIS_URL: `redis://127.0.0.1:${server.port}` }),
      },
    };
    const gateway = await startGateway(options);
    if (server !== undefined) await expectShared(gateway.adminUrl);
    const headers = { "x-app-id": state.app ?? "" };
    const get = (path: string): Promise<Reply> => gateway.get(path, { headers });
    const first = [await get(FRESH), await get(EXPIRED)];
    // Callers get an answer before it is in Redis. Until it is, others may join its flight.
    await expect.poll(() => gateway.metric("gateway_flights")).toBe(0);
    clock.leap(100_000);
    await bringAbout(state, gateway, server);

    const replies = [await get(FRESH), await get(EXPIRED), await get(NEVER_ASKED)];
    expect(replies.slice(0, 2).map(({ text }) => text)).toEqual(first.map(({ text }) => text));
    const cells = ROWS.get(name) ?? [];
    const [fresh, ...others] = replies.map(inWords);
    expect(fresh).toBe("the answer");
    expect(cells).toEqual(others.map((words) => expect.stringContaining(words)));
    for (const { status, headers: sent } of replies)
      if (status === 503 || status === 429) expect(sent["retry-after"]).toMatch(/^\d+$/);
  });
});
