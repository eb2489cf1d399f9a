/**
 * The Lua scripts beside this file, and what they are called as. Each runs as one step, so nobody sees
 * half of it; the keys of one script lie in one slot of a Cluster.
 */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { RedisScripts } from "../platform/redis.ts";

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
  return { lua: readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8"), numberOfKeys: 1 };
}

export const SCRIPTS: RedisScripts = {
  setEntry: script("set-entry"),
  declarePurge: script("declare-purge"),
  readPurges: script("read-purges"),
  restorePurges: script("restore-purges"),
  claimFlight: script("claim"),
  readClaim: script("read-claim"),
  renewClaim: script("renew-claim"),
  releaseClaim: script("release-claim"),
  probe: script("probe"),
};
