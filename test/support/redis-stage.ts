/**
 * A real Redis for histories: the script runs in it, with the time of the history. Its data can be emptied, rolled back, or
 * evicted in part.
 */
import { readFileSync } from "node:fs";

import { Redis } from "ioredis";
import { beforeAll } from "vitest";

import { promisesSettled } from "./fake-clock.ts";
import { startRedis } from "./redis.ts";

export const LUA = readFileSync("src/ratelimit/limits/shared-purse.lua", "utf8");

export type RedisStage = Awaited<ReturnType<typeof startStage>>;

async function startStage() {
  const server = await startRedis("--unixsocket", "socket", "--hz", "1", "--latency-tracking", "no");
  const [, directory] = [await server.command("CONFIG", "GET", "dir")].flat();
  const client = new Redis({ path: `${String(directory)}/socket`, disableClientInfo: true });
  // On a fake clock, it could not connect again after a timeout.
  await client.ping();
  return {
    client,
    close: async () => {
      client.disconnect();
      await server.close();
    },
  };
}

/** One for all tests of a file. */
export function stageForFile(): () => RedisStage {
  let stage: RedisStage;
  beforeAll(async () => {
    stage = await startStage();
    return stage.close;
  });
  return () => stage;
}

/** The script with the time of the history: the last two arguments. */
const withClock = (lua: string): string => lua.replace("redis.call('TIME')", "{ ARGV[2], ARGV[3] }");

const shas = new WeakMap<Redis, Map<string, Promise<unknown>>>();
const MOST_SNAPSHOTS = 6;

/** The data of one history. */
export function createStageData({ client }: RedisStage, namespace: string, lua: string) {
  const loaded = shas.get(client) ?? new Map<string, Promise<unknown>>();
  shas.set(client, loaded);
  const sha = loaded.get(lua) ?? client.script("LOAD", withClock(lua));
  loaded.set(lua, sha);
  const under = new Set<Promise<unknown>>();
  const names = ["purses", "shared", "own"];
  const key = (name: string): string => `${namespace}{limiter:api}:${name}`;
  let taken = 0;

  function doing<T>(work: Promise<T>): Promise<T> {
    under.add(work);
    void work.catch(() => undefined).finally(() => under.delete(work));
    return work;
  }

  const empty = (): void => void doing(client.del(...names.map(key)));
  return {
    namespace,
    xrange: (...range: [key: string, start: string, end: string, count: "COUNT", most: number]) =>
      doing(client.xrange(...range)),
    /** Runs the script as one step. */
    async run(keys: readonly string[], request: string, timeMs: number): Promise<string> {
      const time = [String(Math.floor(timeMs / 1_000)), String(Math.floor((timeMs % 1_000) * 1_000))];
      const known = String(await doing(sha));
      return String(await doing(client.evalsha(known, keys.length, ...keys, request, ...time)));
    },
    snapshot() {
      const place = taken++ % MOST_SNAPSHOTS;
      for (const name of names) {
        void doing(client.del(`${key(name)}:${place}`));
        void doing(client.copy(key(name), `${key(name)}:${place}`, "REPLACE"));
      }
    },
    /** How many there are. */
    snapshots: () => Math.min(taken, MOST_SNAPSHOTS),
    /** Goes on with a snapshot; the youngest is 0. */
    rollBack(age: number) {
      const place = (taken - 1 - age) % MOST_SNAPSHOTS;
      empty();
      for (const name of names) void doing(client.copy(`${key(name)}:${place}`, key(name), "REPLACE"));
    },
    empty,
    /** One key is gone. */
    evict: (index: number) => void doing(client.del(key(names[index] ?? ""))),
    /** Resolves when Redis has executed everything, and the code that waited for it has run. */
    settled: async () => {
      await promisesSettled();
      while (under.size > 0) {
        await Promise.allSettled(under);
        await promisesSettled();
      }
    },
    async remove() {
      const keys = await client.keys(`${namespace}*`);
      if (keys.length > 0) await client.del(...keys);
    },
  };
}
