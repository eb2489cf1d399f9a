import http from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";

import type { Reply } from "../support/ask.ts";
import { askDirectly } from "../support/direct.ts";
import { createDice } from "../support/dice.ts";
import { startGateway } from "../support/gateway.ts";
import { plainTarget, randomMeanings, spell } from "../support/meanings.ts";
import { cacheStatus } from "../support/reply.ts";

describe("many callers", () => {
  it("a thousand at once with the same cold question cost one upstream call, however they put it", async () => {
    const gateway = await startGateway();
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1000, maxFreeSockets: 1000 });
    onTestFinished(() => agent.destroy());
    // Everyone has a connection to the gateway first, so that what is sent at once arrives at once.
    await Promise.all(Array.from({ length: 1000 }, () => gateway.get("/nowhere", { agent })));
    gateway.sandbox.hold();
    const replies = Array.from({ length: 1000 }, (_, n) =>
      gateway.get(
        n % 2 === 0 ? "/listings?areaId=76,1&limit=50" : "/listings/?limit=050&areaId=1&areaId=76&offset=0",
        {
          agent,
          method: n % 5 === 1 ? "HEAD" : "GET",
          headers: {
            "accept-encoding": ["identity", "gzip", "br", "zstd"][n % 4] ?? "",
            accept: n % 3 === 0 ? "*/*" : "application/json",
            "x-app-id": `app-${n}`,
          },
        },
      ),
    );
    await gateway.sandbox.waitForRequests(1);
    // Sent after all of them and answered: by now they are all aboard.
    await gateway.get("/nowhere");
    gateway.sandbox.release();
    const outcomes = (await Promise.all(replies)).map((reply) => {
      expect(reply.status).toBe(200);
      const { fwd, collapsed = false } = cacheStatus(reply);
      return [fwd, collapsed];
    });
    expect(outcomes.filter(([fwd]) => fwd === "miss")).toHaveLength(1000);
    expect(outcomes.filter(([, collapsed]) => collapsed)).toHaveLength(999);
    expect(new Set((await Promise.all(replies)).map(({ headers }) => headers.etag)).size).toBe(4);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("the first hanging up fails none of those who joined it, and the answer is kept", async () => {
    const gateway = await startGateway();
    gateway.sandbox.hold();
    const first = new AbortController();
    const leader = gateway.get("/areas?q=Nacka", { signal: first.signal });
    await gateway.sandbox.waitForRequests(1);
    const follower = gateway.get("/areas?q=Nacka");
    // Sent after it and answered: by now the follower is aboard.
    await gateway.get("/nowhere");
    first.abort();
    await expect(leader).rejects.toThrow();
    await gateway.logged('"outcome":"abandoned"');
    gateway.sandbox.release();
    expect((await follower).status).toBe(200);
    expect(cacheStatus(await gateway.get("/areas?q=Nacka"))).toMatchObject({ hit: true });
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("who all hang up leave a call that comes home and is kept", async () => {
    const gateway = await startGateway();
    gateway.sandbox.hold();
    const hangUp = new AbortController();
    const only = gateway.get("/areas?q=Nacka", { signal: hangUp.signal });
    await gateway.sandbox.waitForRequests(1);
    hangUp.abort();
    await expect(only).rejects.toThrow();
    gateway.sandbox.release();
    // It may be still on its way; in either case it is not asked for again.
    expect((await gateway.get("/areas?q=Nacka")).status).toBe(200);
    expect(gateway.sandbox.requests()).toHaveLength(1);
    expect(cacheStatus(await gateway.get("/areas?q=Nacka"))).toMatchObject({ hit: true });
  });
});

describe("ten thousand spellings of three hundred meanings", () => {
  it("cost three hundred upstream calls, and every answer is the sandbox's own for its meaning", async () => {
    // Another one each time; a failure shows it, and FUZZ_SEED repeats it.
    const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
    const gateway = await startGateway({ env: { BUDGET_CONCURRENCY: "8" } });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
    const meanings = randomMeanings(seed, 300);
    const truths = new Map<number, unknown>();
    for (const [index, meaning] of meanings.entries()) {
      truths.set(index, (await askDirectly(gateway.sandboxUrl, withOffset(plainTarget(meaning)))).text);
    }
    gateway.sandbox.clearRequests();

    const dice = createDice(seed);
    const asks = Array.from({ length: 10_000 }, (_, round) => {
      const index = round < meanings.length ? round : dice.between(0, meanings.length - 1);
      const meaning = meanings[index];
      return { index, target: meaning ? spell(meaning, seed + round) : "" };
    });
    const wrong: { target: string; reply: Reply }[] = [];
    const queue = dice.shuffled(asks);
    const worker = async (): Promise<void> => {
      for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
        const reply = await gateway.get(next.target, { agent });
        if (reply.status !== 200 || reply.text !== truths.get(next.index))
          wrong.push({ target: next.target, reply });
      }
    };
    await Promise.all(Array.from({ length: 32 }, worker));
    agent.destroy();
    expect(
      wrong.slice(0, 3).map(({ target, reply }) => [seed, target, reply.status, reply.text.slice(0, 200)]),
    ).toEqual([]);
    expect([seed, gateway.sandbox.counts().total]).toEqual([seed, meanings.length]);
  });
});

/** The gateway always names the offset it means, and the upstream echoes it. */
function withOffset(target: string): string {
  if (target.startsWith("/areas") || /[?&]offset=/.test(target)) return target;
  return `${target}${target.includes("?") ? "&" : "?"}offset=0`;
}
