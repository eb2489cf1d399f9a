/**
 * The Lua scripts of the budget, and what they are called as. Each begins with the same prelude, takes its
 * request as JSON, and answers in JSON; all keys of one budget lie in one slot of a Cluster.
 */
import { readFileSync } from "node:fs";

import type { ClientContext, Result } from "ioredis";

import type { RedisScripts } from "../redis/connect.ts";

declare module "ioredis" {
  interface RedisCommander<Context extends ClientContext> {
    takePlace(numberOfKeys: number, ...keysAndRequest: string[]): Result<string, Context>;
    settleSends(numberOfKeys: number, ...keysAndRequest: string[]): Result<string, Context>;
    lookAtBudget(numberOfKeys: number, ...keysAndRequest: string[]): Result<string, Context>;
    joinBudget(numberOfKeys: number, ...keysAndRequest: string[]): Result<string, Context>;
  }
}

function read(file: string): string {
  return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8");
}

const script = (file: string): { lua: string } => ({ lua: `${read("prelude")}\n${read(file)}` });

export const BUDGET_SCRIPTS: RedisScripts = {
  takePlace: script("take"),
  settleSends: script("settle"),
  lookAtBudget: script("look"),
  joinBudget: script("join"),
};
