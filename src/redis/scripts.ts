/**
 * The Lua scripts beside this file, and what they are called as. Each runs as one step, so nobody sees
 * half of it; the keys of one script lie in one slot of a Cluster.
 */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { RedisScripts } from "./connect.ts";

type Flag = 0 | 1;

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    setEntry(
      key: string,
      blob: Buffer,
      keptForMs: number,
      channel: string,
      message: string,
    ): Result<Flag, Context>;
    declarePurge(
      key: string,
      scope: string,
      hard: string,
      latestEpoch: number,
      keptForMs: number,
      channel: string,
    ): Result<string, Context>;
    readPurges(key: string, keptForMs: number, most: number): Result<string[], Context>;
    restorePurges(
      key: string,
      keptForMs: number,
      channel: string,
      ...pairs: (string | number)[]
    ): Result<number, Context>;
    claimFlight(
      key: string,
      claimant: string,
      leaseMs: number,
    ): Result<[holder: string, leftMs: number], Context>;
    readClaim(key: string): Result<[holder: string, leftMs: number], Context>;
    renewClaim(key: string, holder: string, leaseMs: number): Result<Flag, Context>;
    releaseClaim(key: string, holder: string, channel: string, message: string): Result<Flag, Context>;
    probe(key: string): Result<Flag, Context>;
  }
}

function script(file: string): { lua: string; numberOfKeys: number } {
  return { lua: readFileSync(new URL(`../${file}.lua`, import.meta.url), "utf8"), numberOfKeys: 1 };
}

export const SCRIPTS: RedisScripts = {
  setEntry: script("cache/store/lua/set-entry"),
  declarePurge: script("cache/store/lua/declare-purge"),
  readPurges: script("cache/store/lua/read-purges"),
  restorePurges: script("cache/store/lua/restore-purges"),
  claimFlight: script("singleflight/lua/claim"),
  readClaim: script("singleflight/lua/read-claim"),
  renewClaim: script("singleflight/lua/renew-claim"),
  releaseClaim: script("singleflight/lua/release-claim"),
  probe: script("redis/lua/probe"),
};
