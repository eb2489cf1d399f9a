/**
 * The common days of the fair budget with gateway processes and a sandbox. Long windows have a lower limit.
 *
 * On one replica, a minute takes ten seconds. It cannot be much shorter, because `Retry-After` has whole seconds: with a minute of
 * three seconds, callers come back too late to use all that is left to them. On three replicas, it is a minute, because calls in Redis
 * count for half a second longer, and replicas know what waits elsewhere only after as long.
 */
import http from "node:http";
import { setTimeout as passed } from "node:timers/promises";

import { describe, it, onTestFinished } from "vitest";

import { ask as askAt } from "../support/ask.ts";
import { listedWith } from "../support/calls-scene.ts";
import { fileWith } from "../support/files.ts";
import { startFleet } from "../support/fleet.ts";
import { expectShared } from "../support/gateway.ts";
import { redisForFile } from "../support/redis-backend.ts";
import { DAYS, type Played, shortened, type Stage, startCallers } from "../support/scenes.ts";

/** Calls count until they have arrived, and with Redis a little longer. So less of a window can be used. */
const STAGES = [
  { replicas: 1, usable: 0.96, timesFaster: 6 },
  { replicas: 3, usable: 0.97, timesFaster: 1 },
];
const MAX_WAIT_MS = 10_000;

const redis = redisForFile();

describe.each(STAGES)("on $replicas replicas,", (stage) => {
  it.each(DAYS)("$name", { timeout: 1_500_000 }, async (day) =>
    day.expect(await play(shortened(day, stage.timesFaster), stage)),
  );
});

async function play(
  day: ReturnType<typeof shortened>,
  { replicas, usable }: (typeof STAGES)[number],
): Promise<Played> {
  const env = {
    BUDGET: day.windows.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(","),
    BUDGET_MAX_WAIT: `${MAX_WAIT_MS}ms`,
    BUDGET_SPACING: "1ms",
    REPLICAS: String(replicas),
    CONFIG_FILE: fileWith(`apps:\n  listed: ${JSON.stringify(listedWith(day.listed ?? {}))}\n`),
  };
  const fleet = await startFleet(env, replicas > 1 ? { redis: redis() } : {});
  const gateways = await Promise.all(Array.from({ length: replicas }, () => fleet.start()));
  if (replicas > 1) await expectShared(...gateways);
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const underWay = new Set<Promise<unknown>>();
  const askNow: Stage["ask"] = async (replica, app, question) => {
    const at = Date.now();
    const { status, headers } = await askAt(`${gateways[replica]?.url}/areas?q=${question}`, {
      headers: { "x-app-id": app },
      agent,
    });
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
  const lateBefore = passed(day.countFromMs).then(() => lateAt(gateways));
  await passed(day.forMs + MAX_WAIT_MS);
  await Promise.all(underWay);
  const played = seen();
  const late = (await lateAt(gateways)) - (await lateBefore);
  return { ...played, late: late / Math.max(1, played.all.answered + late) };
}

/** How many calls were refused late, by the gateway's own count. The time of an answer depends on the machine. */
async function lateAt(gateways: readonly { readonly adminUrl: string }[]): Promise<number> {
  const pages = await Promise.all(gateways.map(({ adminUrl }) => askAt(`${adminUrl}/metrics`)));
  const counts = pages.flatMap(({ text }) => [
    ...text.matchAll(/^gateway_refused_total\{.*reason="deadline".*\} (\d+)/gm),
  ]);
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}
