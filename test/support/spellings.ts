/** One question put in many ways: the gateway finds out what is meant, and asks the upstream once. */
import http from "node:http";

import { expect } from "vitest";

import { type Reply } from "./ask.ts";
import { createRandom } from "./random.ts";
import { askDirectly } from "./direct.ts";
import { EXACT_PAGES, startGateway } from "./gateway.ts";
import { plainTarget, randomMeanings, spell } from "./meanings.ts";

/** @param count how many meanings the spellings have among them */
export async function expectOneCallPerMeaning(spellings: number, count: number): Promise<void> {
  // Another one each time; a failure shows it, and FUZZ_SEED repeats it.
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
  const gateway = await startGateway({
    settings: "query: { unknown: forward }",
    env: { ...EXACT_PAGES, BUDGET_CONCURRENCY: "8" },
  });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
  const meanings = randomMeanings(seed, count);
  const truths = new Map<number, unknown>();
  for (const [index, meaning] of meanings.entries()) {
    truths.set(index, (await askDirectly(gateway.sandboxUrl, withOffset(plainTarget(meaning)))).text);
  }
  gateway.sandbox.clearRequests();

  const random = createRandom(seed);
  const asks = Array.from({ length: spellings }, (_, round) => {
    const index = round < meanings.length ? round : random.between(0, meanings.length - 1);
    const meaning = meanings[index];
    return { index, target: meaning ? spell(meaning, seed + round) : "" };
  });
  const wrong: { target: string; reply: Reply }[] = [];
  const queue = random.shuffled(asks);
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
}

/** The gateway always names the offset it means, and the upstream echoes it. */
function withOffset(target: string): string {
  if (target.startsWith("/areas") || /[?&]offset=/.test(target)) return target;
  return `${target}${target.includes("?") ? "&" : "?"}offset=0`;
}
