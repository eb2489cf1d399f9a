/**
 * The common days of the fair budget with gateway processes, a sandbox, and a Redis where there are several replicas.
 *
 * A minute takes three seconds or more. In one second a busy machine does not answer the 640 requests of the day with the
 * most callers, and the windows in Redis, which are longer by a quarter of a second and two timeouts, would be a third longer.
 */
import http from "node:http";
import { setTimeout as passed } from "node:timers/promises";

import { describe, it, onTestFinished } from "vitest";

import { ask as askAt } from "../support/ask.ts";
import { fileWith } from "../support/files.ts";
import { type Replica, startFleet, startMany } from "../support/fleet.ts";
import { redisForTest, urlOf } from "../support/redis.ts";
import { type Day, DAYS, type Played, shortened, type Stage, startCallers } from "../support/scenes.ts";
import { expectShared } from "../support/two-gateways.ts";

/** Long beside the call itself, also on a busy machine. */
const MAX_WAIT_MS = 2_000;

/** `usable`: calls count until they have arrived, and in Redis longer (see above). */
describe.each([
  { replicas: 1, usable: 0.95 },
  { replicas: 3, usable: 0.8 },
])("on $replicas replicas,", ({ replicas, usable }) => {
  it.each(DAYS)("$name", { timeout: 180_000 }, async (day) => {
    day.expect(await play(shortened(day), { replicas, usable }));
  });
});

async function play(
  day: ReturnType<typeof shortened>,
  { replicas, usable }: Pick<Stage, "replicas" | "usable">,
): Promise<Played> {
  const fleet = await startFleet({
    BUDGET: day.windows.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(","),
    BUDGET_MAX_WAIT: `${MAX_WAIT_MS}ms`,
    BUDGET_SPACING: "1ms",
    CONFIG_FILE: fileWith(`apps:\n  listed: ${JSON.stringify(listedOf(day))}\n`),
    ...(replicas > 1 && { REDIS_URL: urlOf(await redisForTest()), REPLICAS: String(replicas) }),
  });
  const all = await startMany(fleet, replicas);
  if (replicas > 1) for (const { admin } of all) await expectShared(admin);
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const underWay = new Set<Promise<unknown>>();
  const askNow: Stage["ask"] = async (replica, app, question) => {
    const at = Date.now();
    const url = `${all[replica]?.url}/areas?q=${question}`;
    const { status, headers } = await askAt(url, { headers: { "x-app-id": app }, agent });
    const waitedMs = Date.now() - at;
    if (status === 200) return { isAnswered: true, waitedMs };
    const retryAfterMs = Number(headers["retry-after"] ?? 1) * 1_000;
    return { isAnswered: false, waitedMs, retryAfterMs };
  };
  const ask: Stage["ask"] = (...question) => {
    const asked = askNow(...question);
    underWay.add(asked);
    return asked.finally(() => underWay.delete(asked));
  };
  const after: Stage["after"] = (delayMs, callback) => setTimeout(callback, delayMs);
  const stage: Stage = { replicas, usable, now: Date.now, after, ask, sent: fleet.arrivals };
  const seen = startCallers(stage, { ...day, seed: 1 });
  const lateBefore = passed(day.countFromMs).then(() => lateAt(all));
  await passed(day.forMs + MAX_WAIT_MS);
  await Promise.all(underWay);
  const played = seen();
  const late = (await lateAt(all)) - (await lateBefore);
  return { ...played, late: late / Math.max(1, played.all.answered + late) };
}

/** How many calls were refused late. The gateways say it, because how long an answer takes depends on the machine. */
async function lateAt(replicas: readonly Replica[]): Promise<number> {
  const texts = await Promise.all(replicas.map(async ({ admin }) => (await askAt(`${admin}/metrics`)).text));
  const counts = texts.join("\n").matchAll(/^gateway_refused_total\{.*reason="deadline".*\} (\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

function listedOf({ listed = {} }: Pick<Day, "listed">): { id: string; weight: number }[] {
  return Object.entries(listed).map(([id, weight]) => ({ id, weight }));
}
