/**
 * Reads the Lua scripts that lie beside the code that calls them. A script runs as one step, so nobody sees
 * half of it; all its keys lie in one slot of a Cluster.
 */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { RedisScripts } from "./connect.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    probe(key: string): Result<number, Context>;
  }
}

/** @returns a script that takes one key */
export function readScript(url: URL): RedisScripts[string] {
  return { lua: readFileSync(url, "utf8"), numberOfKeys: 1 };
}

/** The script that asks whether Redis works again. */
export const PROBE: RedisScripts = { probe: readScript(new URL("./lua/probe.lua", import.meta.url)) };
