/**
 * Three gateway processes in front of one Redis and one upstream, as in production.
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";

import { createSandbox, type Sandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "../support/ask.ts";
import { CALLER } from "../support/gateway.ts";
import { post } from "../support/post.ts";
import { run, start, type Running } from "../support/process.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { cacheStatus } from "../support/reply.ts";

interface Replica {
  readonly process: Running;
  readonly url: string;
  readonly admin: string;
}

const READY = /"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/;

let redis: RedisServer;
let sandbox: Sandbox;
let settings: Record<string, string>;

beforeAll(async () => {
  redis = await startRedis();
  sandbox = createSandbox({ ...CALLER, sizes: { listings: 500, sold: 500 } });
  const { url } = await sandbox.listen();
  settings = {
    HOST: "127.0.0.1",
    PORT: "0",
    ADMIN_PORT: "0",
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    UPSTREAM_URL: url,
    UPSTREAM_IMAGE_URL: url,
    UPSTREAM_SERVICE: CALLER.service,
    UPSTREAM_CALLER_ID: CALLER.callerId,
    UPSTREAM_PRIVATE_KEY: CALLER.privateKey,
    UPSTREAM_USER_AGENT: "test/1.0",
    UPSTREAM_REFERRER: "https://www.example.com/",
    BUDGET: "100000/1m",
    REPLICAS: "4",
  };
});
afterAll(async () => {
  await Promise.all([sandbox.close(), redis.close()]);
});

async function replicaOf(process: Running): Promise<Replica> {
  const [, url = "", admin = ""] = await process.says(READY);
  // Redis is asked in the background; a replica that has a store works without it until then.
  await vi.waitFor(
    async () =>
      expect((await ask(`${admin}/metrics`)).text).toMatch(
        /operation="purges"\} [1-9][^]*breaker_state\{store="redis"\} 0/,
      ),
    { timeout: 20_000 },
  );
  return { process, url, admin };
}

describe("three replicas", () => {
  // The tests ask different questions of the same three; the last test kills one of them.
  let replicas: Replica[];
  beforeAll(async () => {
    replicas = await Promise.all([1, 2, 3].map(() => replicaOf(start(["gateway"], settings))));
    return () => replicas.forEach(({ process }) => process.child.kill("SIGKILL"));
  });

  it("who are asked the same cold question at once cost one upstream call", async () => {
    sandbox.clearRequests();
    sandbox.hold();
    const path = "/listings?areaId=76&limit=7";
    const replies = replicas.flatMap(({ url }) => Array.from({ length: 20 }, () => ask(url + path)));
    await sandbox.waitForRequests(1);
    for (const { admin } of replicas) {
      await expect.poll(async () => (await ask(`${admin}/metrics`)).text).toContain("gateway_flights 1");
    }
    sandbox.release();
    const statuses = (await Promise.all(replies)).map((reply) => {
      expect(reply.status).toBe(200);
      const { hit, fwd, collapsed } = cacheStatus(reply);
      return hit ? "hit" : collapsed ? "collapsed" : fwd;
    });
    expect(statuses.filter((status) => status === "miss")).toHaveLength(1);
    expect(sandbox.requests()).toHaveLength(1);
    for (const { url } of replicas)
      expect(cacheStatus(await ask(url + path))).toMatchObject({ hit: true, detail: "memory" });
  });

  it("share answers: what one has fetched the others find in Redis", async () => {
    const [first, second] = replicas;
    await ask(`${first?.url}/areas?q=shared`);
    expect(cacheStatus(await ask(`${second?.url}/areas?q=shared`))).toMatchObject({
      hit: true,
      detail: "redis",
    });
  });

  it("all hear of a purge that one is told of, and fetch anew once", async () => {
    const [first] = replicas;
    if (first === undefined) throw new Error("no replica");
    const path = "/listings?areaId=1&limit=3";
    for (const { url } of replicas) await ask(url + path);
    sandbox.clearRequests();
    const reply = await post(`${first.admin}/cache/purge`, '{"tag":"area:1"}');
    expect([reply.status, reply.json()]).toMatchObject([
      200,
      { purged: { kind: "tag", tag: "area:1" }, hard: false },
    ]);
    for (const { url, admin } of replicas) {
      const entry = `${admin}/cache/entry?url=${encodeURIComponent(path)}`;
      await expect
        .poll(async () => (await ask(entry)).json(), { timeout: 1_000 })
        .toMatchObject({ key: expect.any(String) });
      await ask(url + path);
    }
    expect(sandbox.requests()).toHaveLength(1);
  });

  it("one of which dies in the middle of a flight: the others have the answer all the same", async () => {
    const [leader, other] = replicas;
    sandbox.clearRequests();
    sandbox.hold();
    const path = "/sold?areaId=76&limit=3";
    const lost = ask(`${leader?.url}${path}`);
    lost.catch(() => undefined);
    await sandbox.waitForRequests(1);
    const followed = ask(`${other?.url}${path}`);
    await expect.poll(async () => (await ask(`${other?.admin}/metrics`)).text).toContain("gateway_flights 1");
    leader?.process.child.kill("SIGKILL");
    await expect(lost).rejects.toThrow();
    sandbox.release();
    expect((await followed).status).toBe(200);
  });
});

describe("a replica whose Redis", () => {
  it("is killed, frozen or restarted empty goes on answering, and uses it again by itself", async () => {
    const own = await startRedis();
    onTestFinished(() => own.close());
    const replica = await replicaOf(
      run(["gateway"], { ...settings, REDIS_URL: `redis://127.0.0.1:${own.port}` }),
    );
    const known = `${replica.url}/areas?q=known`;
    await ask(known);
    const state = async (): Promise<string> => (await ask(`${replica.admin}/metrics`)).text;
    const faults: readonly (readonly [() => unknown, () => unknown])[] = [
      [own.kill, own.restart],
      [own.freeze, own.thaw],
    ];
    for (const [index, [breakIt, mendIt]] of faults.entries()) {
      await breakIt();
      for (let round = 0; round < 5; round++) {
        expect(cacheStatus(await ask(known))).toMatchObject({ hit: true, detail: "memory" });
        expect((await ask(`${replica.url}/areas?q=new-${index}-${round}`)).status).toBe(200);
      }
      expect(await state()).toMatch(/breaker_state\{store="redis"\} [12]/);
      await mendIt();
      await expect.poll(state, { timeout: 10_000 }).toMatch(/breaker_state\{store="redis"\} 0/);
      expect((await ask(`${replica.url}/areas?q=after-${index}`)).status).toBe(200);
    }
  });
});
