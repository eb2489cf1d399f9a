/**
 * Three gateway processes in front of one Redis and one upstream, as in production.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";

import { ask, type Reply, post } from "../support/ask.ts";
import { openFleet, type OpenFleet, type Replica, usesRedis } from "../support/fleet.ts";
import { redisForTest, startRedis, type RedisServer } from "../support/redis.ts";
import { cacheStatus } from "../support/reply.ts";

const UPDATING = { hit: true, detail: "stale-while-revalidate" };

type Three = [Replica, Replica, Replica];

let redis: RedisServer;
let directory: string;
let fleet: OpenFleet;
/** The tests ask different questions of the same three. A test that kills one starts another in its place. */
let replicas: Three;

beforeAll(async () => {
  redis = await startRedis();
  directory = mkdtempSync(join(tmpdir(), "property-gateway-test-"));
  // A busy machine may delay Redis. No replica may go on without it because of that.
  const CONFIG_FILE = join(directory, "settings.yaml");
  writeFileSync(CONFIG_FILE, "redis: { timeout: 500ms }\n");
  fleet = await openFleet({
    CONFIG_FILE,
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    BUDGET: "100000/1m",
    REPLICAS: "4",
    CACHE_STALE_WHILE_REVALIDATE: "listings=1h",
    // So that the page that is asked for is what expires and is refreshed.
    PAGES_FOLD: "off",
  });
  replicas = await Promise.all([startReplica(), startReplica(), startReplica()]);
});
// Also where not all of them came up.
afterAll(async () => {
  await Promise.all([fleet.close(), redis.close()]);
  rmSync(directory, { recursive: true });
});

async function startReplica(env?: Record<string, string>): Promise<Replica> {
  const replica = await fleet.start(env);
  await usesRedis(replica);
  return replica;
}

/** SIGKILL; another one takes its place when the test is over. */
async function killFirst(): Promise<void> {
  replicas[0].process.child.kill("SIGKILL");
  await replicas[0].process.ended;
  onTestFinished(async () => void (replicas[0] = await startReplica()));
}

async function landed({ admin }: Replica): Promise<void> {
  await expect.poll(async () => (await ask(`${admin}/metrics`)).text).toContain("gateway_flights 0");
}

describe("three replicas", () => {
  it("make one upstream call for simultaneous requests of the same answer", async () => {
    fleet.sandbox.clearRequests();
    fleet.sandbox.hold();
    const path = "/listings?areaId=76&limit=7";
    const replies = replicas.flatMap(({ url }) => Array.from({ length: 20 }, () => ask(url + path)));
    await fleet.sandbox.waitForRequests(1);
    for (const { admin } of replicas) {
      await expect.poll(async () => (await ask(`${admin}/metrics`)).text).toContain("gateway_flights 1");
    }
    fleet.sandbox.release();
    const statuses = (await Promise.all(replies)).map((reply) => {
      expect(reply.status).toBe(200);
      const { hit, fwd, collapsed } = cacheStatus(reply);
      return hit ? "hit" : collapsed ? "collapsed" : fwd;
    });
    expect(statuses.filter((status) => status === "miss")).toHaveLength(1);
    expect(fleet.sandbox.requests()).toHaveLength(1);
    for (const { url } of replicas)
      expect(cacheStatus(await ask(url + path))).toMatchObject({ hit: true, detail: "memory" });
  });

  it("find answers that another one fetched in Redis", async () => {
    const [first, second] = replicas;
    await ask(`${first.url}/areas?q=shared`);
    // The first replica answers before it has written to Redis.
    const entry = `${second.admin}/cache/entry?url=${encodeURIComponent("/areas?q=shared")}`;
    await expect.poll(async () => (await ask(entry)).json()).toMatchObject({ entry: { tier: "redis" } });
    expect(cacheStatus(await ask(`${second.url}/areas?q=shared`))).toMatchObject({ hit: true });
  });

  it("all apply a purge that one of them gets, and fetch once", async () => {
    const [first] = replicas;
    const path = "/listings?areaId=1&limit=3";
    for (const { url } of replicas) await ask(url + path);
    fleet.sandbox.clearRequests();
    const reply = await post(`${first.admin}/cache/purge`, '{"tag":"area:1"}');
    expect([reply.status, reply.json()]).toMatchObject([
      200,
      { purged: { kind: "tag", tag: "area:1" }, hard: false },
    ]);
    for (const { url, admin } of replicas) {
      const entry = `${admin}/cache/entry?url=${encodeURIComponent(path)}`;
      await expect.poll(async () => (await ask(entry)).json()).toMatchObject({ key: expect.any(String) });
      await ask(url + path);
    }
    expect(fleet.sandbox.requests()).toHaveLength(1);
  });

  it("still answer when the leader of a flight dies", async () => {
    const [leader, other] = replicas;
    fleet.sandbox.clearRequests();
    fleet.sandbox.hold();
    const path = "/sold?areaId=76&limit=3";
    const lost = ask(`${leader.url}${path}`);
    lost.catch(() => undefined);
    await fleet.sandbox.waitForRequests(1);
    const followed = ask(`${other.url}${path}`);
    await expect.poll(async () => (await ask(`${other.admin}/metrics`)).text).toContain("gateway_flights 1");
    await killFirst();
    await expect(lost).rejects.toThrow();
    fleet.sandbox.release();
    expect((await followed).status).toBe(200);
  });
});

const OTHER = "/areas?q=Nacka";

/** Has the first replica fetch an answer that has expired when it comes. @returns the answer; all three know `OTHER`, too */
async function letExpire(path: string): Promise<string> {
  // By the upstream's word it is out of date when it comes.
  fleet.sandbox.faults.clear();
  fleet.sandbox.faults.add({ headers: { "Cache-Control": "max-age=0" }, times: 1, pathPrefix: "/listings" });
  const { text } = await ask(replicas[0].url + path);
  for (const { url } of replicas) await ask(url + OTHER);
  fleet.sandbox.revise({ pathPrefix: "/listings" });
  fleet.sandbox.clearRequests();
  return text;
}

function expectStale(reply: Reply, text: string): void {
  expect([reply.status, reply.text]).toEqual([200, text]);
  expect(cacheStatus(reply)).toMatchObject(UPDATING);
}

describe("an answer that has just expired, requested at three replicas", () => {
  it("is refreshed once, and all callers get the stale one meanwhile", async () => {
    const path = "/listings?areaId=76&limit=5";
    const text = await letExpire(path);
    fleet.sandbox.hold();
    const asked = replicas.flatMap(({ url }) => Array.from({ length: 20 }, () => ask(url + path)));
    for (const reply of await Promise.all(asked)) expectStale(reply, text);
    await fleet.sandbox.waitForRequests(1);
    fleet.sandbox.release();
    await Promise.all(replicas.map(landed));
    for (const { url } of replicas) {
      const next = await ask(url + path);
      expect(next.text).not.toBe(text);
      expect(cacheStatus(next)).toMatchObject({ hit: true });
      expect(cacheStatus(next)["detail"]).not.toBe("stale-while-revalidate");
    }
    expect(fleet.sandbox.requests()).toHaveLength(1);
  });

  it("is not refreshed by the others right after one of them failed", async () => {
    const path = "/listings?areaId=1&limit=5";
    const text = await letExpire(path);
    const [first, ...others] = replicas;
    fleet.sandbox.faults.add({ status: 500, pathPrefix: "/listings" });
    // On a busy machine, the time for a refresh may pass before it gets a permit. The next request then starts another one.
    const askAgain = async (): Promise<number> => {
      expectStale(await ask(first.url + path), text);
      return fleet.sandbox.requests().length;
    };
    await expect.poll(askAgain).toBeGreaterThan(0);
    await landed(first);
    // One call, or two: on a busy machine, the time for a refresh may have passed before its retry.
    const calls = fleet.sandbox.requests().length;
    // Messages arrive in order: a replica that has the purge also has the failure.
    const purge = async (): Promise<number> =>
      (await post(`${first.admin}/cache/purge`, `{"url":"${OTHER}"}`)).status;
    await expect.poll(purge).toBe(200);
    for (const { url, admin } of others) {
      await expect
        .poll(async () => (await ask(`${admin}/cache/entry?url=${encodeURIComponent(OTHER)}`)).json())
        .toMatchObject({ why: "purged" });
      for (let caller = 0; caller < 5; caller++) {
        const reply = await ask(url + path);
        expect([reply.status, reply.text]).toEqual([200, text]);
        expect(cacheStatus(reply)).toMatchObject({ hit: true, detail: "upstream-error" });
      }
    }
    expect(fleet.sandbox.requests()).toHaveLength(calls);
  });

  it("is served at once and refreshed by another one when the refreshing one is killed", async () => {
    const path = "/listings?areaId=2&limit=5";
    const text = await letExpire(path);
    const [leader, ...others] = replicas;
    fleet.sandbox.hold();
    expectStale(await ask(leader.url + path), text);
    await fleet.sandbox.waitForRequests(1);
    await killFirst();
    // The dead one's claim has to run out first: until then, and while the new one is held, all get the old answer.
    await expect
      .poll(async () => {
        const replies = await Promise.all(others.map(({ url }) => ask(url + path)));
        for (const reply of replies) expectStale(reply, text);
        return fleet.sandbox.requests().length;
      })
      .toBe(2);
    fleet.sandbox.release();
    await Promise.all(others.map(landed));
    // The message about the new answer may not have arrived everywhere.
    for (const { url } of others) await expect.poll(async () => (await ask(url + path)).text).not.toBe(text);
    expect(fleet.sandbox.requests()).toHaveLength(2);
  });
});

describe("a replica whose Redis", () => {
  it("is killed, frozen or restarted empty still answers, and uses Redis again when it is back", async () => {
    const own = await redisForTest();
    const replica = await startReplica({ REDIS_URL: `redis://127.0.0.1:${own.port}`, CONFIG_FILE: "" });
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
