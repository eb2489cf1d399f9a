/**
 * The common days of the fair budget with a gateway process and a sandbox.
 *
 * A minute takes three seconds or more: in one second a busy machine does not answer the 640 requests of the day with the most
 * callers. Three replicas are played on the fake clock only. The windows in Redis are longer by a quarter of a second and two
 * timeouts of Redis, which is little of a minute, but up to half of a window of a few seconds.
 */
import http from "node:http";
import { setTimeout as passed } from "node:timers/promises";

import { it, onTestFinished } from "vitest";

import { ask as askAt } from "../support/ask.ts";
import { fileWith } from "../support/files.ts";
import { startFleet } from "../support/fleet.ts";
import { type Day, DAYS, type Played, shortened, type Stage, startCallers } from "../support/scenes.ts";

/** Much longer than the call itself, also on a busy machine. */
const MAX_WAIT_MS = 2_000;

/** Calls count until they have arrived. */
const USABLE = 0.95;

it.each(DAYS)("$name", { timeout: 180_000 }, async (day) => day.expect(await play(shortened(day))));

async function play(day: ReturnType<typeof shortened>): Promise<Played> {
  const fleet = await startFleet({
    BUDGET: day.windows.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(","),
    BUDGET_MAX_WAIT: `${MAX_WAIT_MS}ms`,
    BUDGET_SPACING: "1ms",
    CONFIG_FILE: fileWith(`apps:\n  listed: ${JSON.stringify(listedOf(day))}\n`),
  });
  const { url, adminUrl } = await fleet.start();
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const underWay = new Set<Promise<unknown>>();
  const askNow: Stage["ask"] = async (_replica, app, question) => {
    const at = Date.now();
    const { status, headers } = await askAt(`${url}/areas?q=${question}`, {
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
  const stage: Stage = { replicas: 1, usable: USABLE, now: Date.now, after, ask, sent: fleet.arrivals };
  const seen = startCallers(stage, { ...day, seed: 1 });
  const lateBefore = passed(day.countFromMs).then(() => lateAt(adminUrl));
  await passed(day.forMs + MAX_WAIT_MS);
  await Promise.all(underWay);
  const played = seen();
  const late = (await lateAt(adminUrl)) - (await lateBefore);
  return { ...played, late: late / Math.max(1, played.all.answered + late) };
}

/** How many calls were refused late, by the gateway's own count. The time of an answer depends on the machine. */
async function lateAt(admin: string): Promise<number> {
  const { text } = await askAt(`${admin}/metrics`);
  const counts = text.matchAll(/^gateway_refused_total\{.*reason="deadline".*\} (\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

function listedOf({ listed = {} }: Pick<Day, "listed">): { id: string; weight: number }[] {
  return Object.entries(listed).map(([id, weight]) => ({ id, weight }));
}
