/** A new version is rolled out under traffic: no request fails, and the budget is kept. */
import http from "node:http";
import { setTimeout as lasting } from "node:timers/promises";

import { expect, it, onTestFinished } from "vitest";

import { ask } from "../support/ask.ts";
import { expectKept } from "../support/arrivals.ts";
import { redisForTest, urlOf } from "../support/redis.ts";
import { type Replica, startFleet, startMany } from "../support/fleet.ts";
import { expectShared } from "../support/two-gateways.ts";
import { fileWith } from "../support/files.ts";

const SECOND = { limit: 40, windowMs: 1_000 } as const;

/** What a load balancer knows: it asks each replica for its /readyz now and then. */
function watchReadiness() {
  const replicas = new Map<Replica, boolean>();
  const check = async (replica: Replica): Promise<void> => {
    const isReady = await ask(`${replica.admin}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    );
    if (replicas.has(replica)) replicas.set(replica, isReady);
  };
  const asking = setInterval(() => [...replicas.keys()].forEach(check), 100);
  onTestFinished(() => clearInterval(asking));
  return {
    add: (replica: Replica) => void replicas.set(replica, false),
    remove: (replica: Replica) => void replicas.delete(replica),
    ready: () => [...replicas].flatMap(([replica, isReady]) => (isReady ? replica : [])),
  };
}

/**
 * Callers on kept connections that ask the replicas that are ready in turn, at a constant rate, for cached and for new
 * answers. They try nothing twice.
 */
function steadyLoad(ready: () => readonly Replica[], callers: number) {
  const answers: { readonly status: number; readonly why: string }[] = [];
  const stop = new AbortController();
  let questions = 0;
  async function caller(): Promise<void> {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    for (let round = 0; !stop.signal.aborted; round++) {
      const target = round % 4 === 0 ? `/areas?q=question-${questions++}` : `/listings?limit=${round % 50}`;
      const replica = ready()[round % ready().length];
      const answer = await ask(`${replica?.url}${target}`, { agent }).then(
        ({ status, text }) => ({ status, why: text.slice(0, 200) }),
        (error: unknown) => ({ status: 0, why: String(error) }),
      );
      answers.push(answer);
      await lasting(100);
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
  const fleet = await startFleet({
    CONFIG_FILE: fileWith("redis: { timeout: 1s }"),
    REDIS_URL: urlOf(redis),
    BUDGET: "40/1s",
    REPLICAS: "2",
    STOP_DELAY: "1s",
  });
  const balancer = watchReadiness();
  const replicas = await startMany(fleet, 2);
  for (const replica of replicas) balancer.add(replica);
  await Promise.all(replicas.map(({ admin }) => expectShared(admin)));
  await expect.poll(balancer.ready).toHaveLength(2);

  const load = steadyLoad(balancer.ready, 5);
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
    await expect.poll(balancer.ready).toHaveLength(2);
    await served();
  }
  await load.stop();

  expect(load.answers.filter(({ status }) => status !== 200)).toEqual([]);
  expectKept(fleet.arrivals(), SECOND);
  // It was not for want of load: new questions came all the time.
  expect(fleet.arrivals().length).toBeGreaterThan(20);
});
