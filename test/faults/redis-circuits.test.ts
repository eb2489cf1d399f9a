/** Circuits that replicas share through Redis. */
import { expect, it } from "vitest";

import { startGateway, startShared } from "../support/gateway.ts";
import { redisForTest } from "../support/redis.ts";

it("a short circuit does not shorten the memory of a long one: a new replica knows both", async () => {
  const redis = await redisForTest();
  const first = await startShared({ redis });
  first.sandbox.faults.add({ pathPrefix: "/sold", status: 503, retryAfter: "200", times: 1 });
  await first.get("/sold?areaId=1");
  first.sandbox.faults.add({ pathPrefix: "/areas", status: 503, retryAfter: "1", times: 1 });
  await first.get("/areas?q=a");
  const ttls = async (): Promise<number[]> => {
    const keys = await redis.command("KEYS", "*{circuits:api}*");
    const all = Array.isArray(keys) ? keys.map((key) => redis.command("PTTL", String(key))) : [];
    return (await Promise.all(all)).map(Number);
  };
  await expect.poll(async () => (await ttls()).length).toBe(2);
  const [short = 0, long = 0] = (await ttls()).toSorted((a, b) => a - b);
  expect(short).toBeLessThan(100_000);
  expect(long).toBeGreaterThan(200_000);
  const second = await startGateway({ redis, beside: first });
  await expect.poll(() => second.metric('gateway_circuit_state{circuit="api/sold"}')).toBe(2);
});
