/**
 * Checks whether Redis may evict the budget when its memory is full. The policy is in `INFO memory`, which managed services allow
 * more often than `CONFIG GET`.
 */
import { every } from "../process/clock.ts";
import type { RedisClient } from "./connect.ts";
import { isReply, type RedisService } from "./redis.ts";

/** The other policies may also evict keys in frequent use, such as those of the budget. */
const SAFE: ReadonlySet<string> = new Set(["noeviction", "volatile-lru", "volatile-lfu"]);
const READ_EVERY_MS = 60_000;
const MAY_EVICT =
  "Redis may evict the budget when its memory is full; then no calls are possible for a window. Set its " +
  "maxmemory-policy to volatile-lru.";

type EvictionPolicy = Awaited<ReturnType<typeof evictionPolicyOf>>;

/** @returns `undefined` if Redis does not report it, for example because the user may not run INFO */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export async function evictionPolicyOf(client: RedisClient) {
  const text = await client.info("memory").catch((error: unknown) => {
    // An access rule that refuses INFO is no outage.
    if (error instanceof Error && isReply(error)) return "";
    throw error;
  });
  const name = /^maxmemory_policy:(\S+)/m.exec(text)?.[1];
  return name === undefined ? undefined : { name, isSafe: SAFE.has(name) };
}

/** Reads the policy at the start, after each outage, and every minute. Warns when an unsafe policy appears. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function watchEvictionPolicy(redis: RedisService) {
  const { clock, namespace, observer } = redis.options;
  let current: EvictionPolicy;
  async function read(): Promise<void> {
    const before = current?.name;
    // Outages have their own line in the log.
    current = await redis.run("look", namespace, evictionPolicyOf).catch(() => current);
    if (current === undefined || current.isSafe || current.name === before) return;
    observer.warn(MAY_EVICT, { policy: current.name });
  }
  void read();
  redis.on("recovery", () => void read());
  return { current: (): EvictionPolicy => current, close: every(clock, READ_EVERY_MS, () => void read()) };
}
