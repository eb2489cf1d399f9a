/* oxlint-disable typescript/no-unsafe-type-assertion, complexity -- values of a script have no types here */
/**
 * As much of Redis as the limiter's script uses, in this process and with a clock that the test sets: its data can be
 * copied, lost, and taken over by another server.
 */
import { compileLua, type LuaScript } from "./lua.ts";

interface SortedSet {
  readonly scores: Map<string, number>;
  /** By score, then by member. */
  readonly sorted: { score: number; readonly member: string }[];
}

type Value = string | SortedSet | Map<string, string> | { id: string; fields: string[] }[];

export interface ScriptRedis {
  /** Runs the script as one step. */
  readonly run: (keys: readonly string[], args: readonly string[]) => string;
  readonly snapshot: () => ScriptData;
  /** Continues with other data, or without any. */
  readonly restore: (data: ScriptData | undefined) => void;
  /** Another server takes over. */
  readonly replaceServer: () => void;
}

export type ScriptData = ReadonlyMap<string, Value>;

const compiled = new Map<string, LuaScript>();

export function createScriptRedis(lua: string, now: () => number): ScriptRedis {
  const script = compiled.get(lua) ?? compileLua(lua);
  compiled.set(lua, script);
  let data = new Map<string, Value>();
  let server = 1;
  let entries = 0;

  function setAt(key: string): SortedSet {
    const value = data.get(key) ?? { scores: new Map(), sorted: [] };
    data.set(key, value);
    return value as SortedSet;
  }

  const commands: Readonly<Record<string, (...args: string[]) => unknown>> = {
    TIME: () => [String(Math.floor(now() / 1000)), String(Math.floor((now() % 1000) * 1000))],
    INFO: () => `# Server\r\nrun_id:server${server}\r\n`,
    GET: (key = "") => data.get(key),
    SET: (key = "", value = "") => void data.set(key, value),
    DEL: (key = "") => Number(data.delete(key)),
    PEXPIRE: () => 1,
    ZADD(key = "", ...args) {
      const flags = args.splice(
        0,
        args.findIndex((arg) => /^[\d-]/.test(arg)),
      );
      return add(setAt(key), { score: Number(args[0]), member: args[1] ?? "" }, flags);
    },
    ZREM: (key = "", member = "") => remove(setAt(key), member),
    ZSCORE: (key = "", member = "") => setAt(key).scores.get(member)?.toString(),
    ZCOUNT(key = "", from = "", to = "") {
      const { sorted } = setAt(key);
      return Math.max(0, indexOf(sorted, to, true) - indexOf(sorted, from, false));
    },
    ZRANGE: (key = "") => setAt(key).sorted.flatMap(({ member, score }) => [member, String(score)]),
    ZRANGEBYSCORE(key = "", from = "", to = "", ...options) {
      const { sorted } = setAt(key);
      const limit = options.indexOf("LIMIT");
      const first = indexOf(sorted, from, false) + (limit < 0 ? 0 : Number(options[limit + 1]));
      const count = limit < 0 ? sorted.length : Number(options[limit + 2]);
      const found = sorted.slice(first, Math.min(first + count, indexOf(sorted, to, true)));
      return found.flatMap(({ member, score }) =>
        options.includes("WITHSCORES") ? [member, String(score)] : [member],
      );
    },
    ZREMRANGEBYSCORE(key = "", _from, to = "") {
      const set = setAt(key);
      for (const { member } of set.sorted.splice(0, indexOf(set.sorted, to, true))) set.scores.delete(member);
    },
    HSET: (key = "", field = "", value = "") => void hashAt(key).set(field, value),
    HGETALL: (key = "") => [...hashAt(key)].flat(),
    HDEL: (key = "", field = "") => Number(hashAt(key).delete(field)),
    XADD: (key = "", _id, ...fields) => {
      const list = data.get(key) ?? [];
      data.set(key, list);
      (list as { id: string; fields: string[] }[]).push({ id: `${++entries}-0`, fields });
      return `${entries}-0`;
    },
    XTRIM: () => 0,
    XRANGE: () => [],
  };

  function hashAt(key: string): Map<string, string> {
    const value = data.get(key) ?? new Map<string, string>();
    data.set(key, value);
    return value as Map<string, string>;
  }

  return {
    run(keys, args) {
      const host = {
        call(name: string, ...rest: string[]): unknown {
          const command = commands[name];
          if (command === undefined) throw new TypeError(`${name} is not known here`);
          return command(...rest);
        },
      };
      const reply = script(host, keys, args);
      if (typeof reply !== "string") throw new TypeError("the script answers with text");
      return reply;
    },
    snapshot: () => structuredClone(data),
    restore(other) {
      data = new Map(structuredClone(other ?? []));
    },
    replaceServer: () => void server++,
  };
}

type Sorted = SortedSet["sorted"];

/** The first place whose score is a bound or more; of an upper bound, the first beyond it. */
function indexOf(sorted: Sorted, bound: string, isUpper: boolean): number {
  if (bound === "+inf") return sorted.length;
  if (bound === "-inf") return 0;
  const isOpen = bound.startsWith("(");
  const score = Number(isOpen ? bound.slice(1) : bound);
  const isBefore = (one: number): boolean => (isOpen === isUpper ? one < score : one <= score);
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(sorted[middle]?.score ?? 0)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function add(
  { scores, sorted }: SortedSet,
  { score, member }: { score: number; member: string },
  flags: readonly string[],
): number {
  const known = scores.get(member);
  if (known === undefined && flags.includes("XX")) return 0;
  if (known !== undefined && flags.includes("LT") && score >= known) return 0;
  if (known !== undefined && flags.includes("GT") && score <= known) return 0;
  if (known !== undefined) remove({ scores, sorted }, member);
  scores.set(member, score);
  let index = indexOf(sorted, String(score), true);
  while (index > 0 && sorted[index - 1]?.score === score && (sorted[index - 1]?.member ?? "") > member)
    index--;
  sorted.splice(index, 0, { score, member });
  return known === undefined ? 1 : 0;
}

function remove({ scores, sorted }: SortedSet, member: string): number {
  const score = scores.get(member);
  if (score === undefined) return 0;
  scores.delete(member);
  let index = indexOf(sorted, String(score), false);
  while (sorted[index]?.member !== member) index++;
  sorted.splice(index, 1);
  return 1;
}
