/**
 * The common days of the fair budget with gateway processes, a sandbox, and a Redis where there are several replicas.
 *
 * On one replica a minute takes a second. On three it takes three seconds, because the windows in Redis are longer than
 * configured by a quarter of a second and two timeouts of Redis: of a second, that is a third.
 */
import http from "node:http";
import { setTimeout as passed } from "node:timers/promises";

import { describe, it, onTestFinished } from "vitest";

import { ask as askAt } from "../support/ask.ts";
import { fileWith } from "../support/files.ts";
import { startFleet, startMany, usesRedis } from "../support/fleet.ts";
import { redisForTest, urlOf } from "../support/redis.ts";
import { type Day, DAYS, type Played, shortened, type Stage, startCallers } from "../support/scenes.ts";
import { expectShared } from "../support/two-gateways.ts";

/** Longer than a minute of a day, because a wait cannot be shorter than the call itself. */
const MAX_WAIT_MS = 1_000;
/** An answer that takes longer has waited. */
const LATE_MS = 250;

/** `usable`: calls count until they have arrived, and in Redis longer (see above). */
describe.each([
  { replicas: 1, times: 60, usable: 0.95 },
  { replicas: 3, times: 20, usable: 0.8 },
])("on $replicas replicas, with days that are $times times shorter,", ({ replicas, times, usable }) => {
  it.each(DAYS)("$name", { timeout: 180_000 }, async (day) => {
    day.expect(await play(shortened(day, times), { replicas, usable }));
  });
});

async function play(
  day: ReturnType<typeof shortened>,
  { replicas, usable }: Pick<Stage, "replicas" | "usable">,
): Promise<Played> {
  const fleet = await startFleet({
    BUDGET: day.windows.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(","),
    BUDGET_MAX_WAIT: `${MAX_WAIT_MS}ms`,
    CONFIG_FILE: fileWith(`apps:\n  listed: ${JSON.stringify(listedOf(day))}\n`),
    ...(replicas > 1 && { REDIS_URL: urlOf(await redisForTest()), REPLICAS: String(replicas) }),
  });
  const all = await startMany(fleet, replicas);
  if (replicas > 1)
    for (const one of all) {
      await usesRedis(one);
      await expectShared(one.admin);
    }
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const ask: Stage["ask"] = async (replica, app, question) => {
    const at = Date.now();
    const headers = { "x-app-id": app };
    const { status, headers: got } = await askAt(`${all[replica]?.url}/areas?q=${question}`, {
      headers,
      agent,
    });
    const waitedMs = Date.now() - at;
    if (status === 200) return { isAnswered: true, waitedMs };
    const retryAfterMs = Number(got["retry-after"]) * 1_000;
    return { isAnswered: false, isLate: waitedMs > LATE_MS, waitedMs, retryAfterMs };
  };
  const after: Stage["after"] = (delayMs, callback) => setTimeout(callback, delayMs);
  const stage: Stage = { replicas, usable, now: Date.now, after, ask, sent: fleet.arrivals };
  const seen = startCallers(stage, { ...day, seed: 1 });
  await passed(day.forMs + 2 * MAX_WAIT_MS);
  return seen();
}

function listedOf({ listed = {} }: Pick<Day, "listed">): { id: string; weight: number }[] {
  return Object.entries(listed).map(([id, weight]) => ({ id, weight }));
}
