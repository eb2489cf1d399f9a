/** A new version is rolled out under traffic: no request fails, and the budget is kept. */
import { writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";

import { expect, it, onTestFinished } from "vitest";

import { ask } from "../support/ask.ts";
import { startBalancer } from "../support/balancer.ts";
import { expectKept } from "../support/arrivals.ts";
import { redisForTest, urlOf } from "../support/redis.ts";
import { startFleet, startMany } from "../support/fleet.ts";
import { expectShared } from "../support/two-gateways.ts";
import { temporaryDirectory } from "../support/files.ts";

const SECOND = { limit: 40, windowMs: 1_000 } as const;

/** Callers on kept connections that ask at a constant rate for cached and for new answers. */
function steadyLoad(url: string, callers: number) {
  const answers: { readonly status: number; readonly why: string }[] = [];
  const stop = new AbortController();
  let questions = 0;
  async function caller(): Promise<void> {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    for (let round = 0; !stop.signal.aborted; round++) {
      const target = round % 4 === 0 ? `/areas?q=question-${questions++}` : `/listings?limit=${round % 50}`;
      const answer = await ask(url + target, { agent }).then(
        ({ status, headers, text }) => ({ status, why: String(headers["x-balancer"] ?? text.slice(0, 200)) }),
        (error: unknown) => ({ status: 0, why: String(error) }),
      );
      answers.push(answer);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  const all = Array.from({ length: callers }, caller);
  return {
    answers,
    async stop() {
      stop.abort();
      await Promise.all(all);
    },
  };
}

it("a rolling restart of two processes under load fails no request and exceeds no limit", async () => {
  const redis = await redisForTest();
  const CONFIG_FILE = join(temporaryDirectory(), "settings.yaml");
  writeFileSync(CONFIG_FILE, "redis: { timeout: 1s }");
  const fleet = await startFleet({
    CONFIG_FILE,
    REDIS_URL: urlOf(redis),
    BUDGET: "40/1s",
    REPLICAS: "2",
    STOP_DELAY: "1s",
  });
  const balancer = await startBalancer();
  const replicas = await startMany(fleet, 2);
  for (const replica of replicas) balancer.add(replica);
  await Promise.all(replicas.map(({ admin }) => expectShared(admin)));
  await expect.poll(balancer.ready).toBe(2);

  const load = steadyLoad(balancer.url, 5);
  const served = async (): Promise<void> => {
    const before = load.answers.length;
    await expect.poll(() => load.answers.length).toBeGreaterThan(before + 20);
  };
  await served();
  for (const old of replicas) {
    old.process.child.kill("SIGTERM");
    expect(await old.process.ended).toBe(0);
    balancer.remove(old);
    await served();
    const successor = await fleet.start();
    balancer.add(successor);
    await expect.poll(balancer.ready).toBe(2);
    await served();
  }
  await load.stop();

  expect(load.answers.filter(({ status }) => status !== 200)).toEqual([]);
  expectKept(fleet.arrivals(), SECOND);
  // It was not for want of load: new questions came all the time.
  expect(fleet.arrivals().length).toBeGreaterThan(20);
});
