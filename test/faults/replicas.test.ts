/** Gateways on one Redis, as in production: refreshes, circuits, and what happens when one of them fails or is killed. */

import { expect, it } from "vitest";

import { cacheStatus, type Reply } from "../support/ask.ts";
import { startFleet } from "../support/fleet.ts";
import { EXACT_PAGES, expectShared, startGateway, startShared, startTwo } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";

// Each page is fetched by itself, so the page expires and is refreshed, not a block.
const ENV = { ...EXACT_PAGES, REPLICAS: "3", CACHE_STALE_WHILE_REVALIDATE: "listings=1h" };
const OTHER = "/areas?q=Nacka";
const PATH = "/listings?areaId=76&limit=5";

/** The stale answer is one that both have, and that has expired. The upstream has another one by now. */
async function startWithExpired() {
  const redis = await redisForTest();
  const both = await startTwo({ redis, env: ENV });
  const [{ sandbox, get }, other] = both;
  // The upstream says that the answer is already stale when it arrives.
  sandbox.faults.add({ headers: { "Cache-Control": "max-age=0" }, times: 1, pathPrefix: "/listings" });
  const { text } = await get(PATH);
  for (const gateway of both) await gateway.get(OTHER);
  await expect.poll(() => other.entryAt(PATH)).toMatchObject({ entry: { tier: "redis" } });
  sandbox.revise({ pathPrefix: "/listings" });
  sandbox.clearRequests();
  return { redis, both, sandbox, stale: text };
}

function expectStale(reply: Reply, text: string): void {
  expect([reply.status, reply.text]).toEqual([200, text]);
  expect(cacheStatus(reply)).toMatchObject({ hit: true, detail: "stale-while-revalidate" });
}

it("an answer that has just expired is refreshed once, and all callers get the stale one meanwhile", async () => {
  const { both, sandbox, stale } = await startWithExpired();
  sandbox.hold();
  const asked = both.flatMap(({ get }) => Array.from({ length: 20 }, () => get(PATH)));
  for (const reply of await Promise.all(asked)) expectStale(reply, stale);
  await sandbox.waitForRequests(1);
  sandbox.release();
  await Promise.all(both.map(({ landed }) => landed()));
  for (const { get } of both) {
    const next = await get(PATH);
    expect(next.text).not.toBe(stale);
    expect(cacheStatus(next)).toMatchObject({ hit: true, detail: expect.not.stringMatching("stale") });
  }
  expect(sandbox.requests()).toHaveLength(1);
});

it("an answer is not refreshed by one gateway right after another one has failed to", async () => {
  const { both, sandbox, stale } = await startWithExpired();
  const [first, other] = both;
  sandbox.faults.add({ status: 500, pathPrefix: "/listings" });
  // On a busy machine, the time for a refresh may pass before it gets a permit. The next request then starts another one.
  const askAgain = async (): Promise<number> => {
    expectStale(await first.get(PATH), stale);
    return sandbox.requests().length;
  };
  await expect.poll(askAgain).toBeGreaterThan(0);
  await first.landed();
  // One call, or two: on a busy machine, the time for a refresh may have passed before its retry.
  const calls = sandbox.requests().length;
  // Messages arrive in order: a replica that has the purge also has the failure.
  await expect.poll(async () => (await first.admin("/cache/purge", `{"url":"${OTHER}"}`)).status).toBe(200);
  await expect.poll(() => other.entryAt(OTHER)).toMatchObject({ why: "purged" });
  for (let caller = 0; caller < 5; caller++) {
    const reply = await other.get(PATH);
    expect([reply.status, reply.text]).toEqual([200, stale]);
    expect(cacheStatus(reply)).toMatchObject({ hit: true, detail: "upstream-error" });
  }
  expect(sandbox.requests()).toHaveLength(calls);
  // When one of them has fetched the answer, none of them remembers the failure.
  sandbox.faults.clear();
  const newest = { headers: { "cache-control": "no-cache, stale-if-error=0" } };
  expect((await first.get(PATH, newest)).text).not.toBe(stale);
  await expect.poll(() => other.entryAt(PATH)).not.toHaveProperty("failure");
});

it("when a gateway is killed that fetches one answer and refreshes another, the others do both", async () => {
  const { redis, both, sandbox, stale } = await startWithExpired();
  const fleet = await startFleet({ ...ENV, BUDGET: "1000000/1m" }, { redis, beside: both[0] });
  const killed = await fleet.start();
  await expectShared(killed);
  sandbox.hold();
  expectStale(await killed.get(PATH), stale);
  await sandbox.waitForRequests(1);
  const fetched = "/sold?areaId=76&limit=3";
  const lost = killed.get(fetched);
  lost.catch(() => undefined);
  await sandbox.waitForRequests(2);
  const followed = both[0].get(fetched);
  await expect.poll(() => both[0].metric("gateway_flights")).toBe(1);
  void killed.kill("SIGKILL");
  await expect(lost).rejects.toThrow();
  // The claims of the killed gateway must expire first. Until the new call has ended, all callers get the old answer.
  await expect
    .poll(async () => {
      for (const reply of await Promise.all(both.map(({ get }) => get(PATH)))) expectStale(reply, stale);
      return sandbox.requests().filter(({ path }) => path === "/listings").length;
    })
    .toBe(2);
  sandbox.release();
  expect((await followed).status).toBe(200);
  await Promise.all(both.map(({ landed }) => landed()));
  // The message about the new answer may not have arrived everywhere.
  for (const { get } of both) await expect.poll(async () => (await get(PATH)).text).not.toBe(stale);
  expect(sandbox.requests()).toHaveLength(4);
});

it("a short circuit does not shorten the memory of a long one: a new replica knows both, and how old they are", async () => {
  const redis = await redisForTest();
  const first = await startShared({ redis });
  first.sandbox.faults.add({ pathPrefix: "/sold", status: 503, retryAfter: "200", times: 1 });
  await first.get("/sold?areaId=1");
  first.sandbox.faults.add({ pathPrefix: "/areas", status: 503, retryAfter: "1", times: 1 });
  await first.get("/areas?q=a");
  const keys = async (): Promise<unknown[]> => [await redis.command("KEYS", "*{circuits:api}*")].flat();
  await expect.poll(keys).toHaveLength(2);
  const [short = "", long = ""] = (await keys()).map(String).toSorted();
  expect(Number(await redis.command("PTTL", short))).toBeLessThan(100_000);
  expect(Number(await redis.command("PTTL", long))).toBeGreaterThan(200_000);
  // As if half of the time had passed. The new replica waits for the rest.
  await redis.command("PEXPIRE", long, "160000");
  const second = await startGateway({ redis, beside: first });
  const sold = { scope: "sold", state: "open", forMs: expect.closeTo(100_000, -5) };
  const circuits = async () => (await second.budget()).circuits;
  await expect.poll(circuits).toContainEqual(expect.objectContaining(sold));
});
