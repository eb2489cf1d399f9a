/**
 * Replicas of version 0.1 use another protocol and other keys, and the two protocols do not share a limit. So a replica of
 * this version does not join while replicas of version 0.1 are running. Then it counts the calls that they sent.
 */
import { type Clock, pause } from "../process/clock.ts";
import type { OriginName } from "../types.ts";
import type { RunLimiter } from "./redis-limiter.ts";

export interface OldProtocolOptions {
  readonly run: RunLimiter;
  /** The prefix of all keys of the old version. */
  readonly namespace: string;
  readonly origin: OriginName;
  /** The longest window. */
  readonly windowMs: number;
  /** How long an old replica that is cut off goes on sending. */
  readonly degradedForMs: number;
  readonly clock: Clock;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** An old replica reports four times a second, and its calls arrive within this time. */
const SILENT_MS = 5_000;
const ASK_AGAIN_MS = 1_000;
/** While Redis does not answer. At the start, the connection is ready in a moment. */
const RETRY_MS = 100;

/** Resolves when no old replica can send any more. @returns their calls, by age */
export async function oldReplicasAreGone(
  options: OldProtocolOptions,
): Promise<readonly { readonly id: string; readonly ageMs: number }[]> {
  const { origin, clock, warn } = options;
  let isReported = false;
  for (;;) {
    const found = await look(options).catch(() => undefined);
    if (found !== undefined && found.live.length === 0) return found.sends;
    if (found !== undefined && !isReported) {
      isReported = true;
      warn("Replicas of version 0.1 use this Redis; this replica sends nothing until they have stopped", {
        origin,
        replicas: found.live,
      });
    }
    await pause(clock, found === undefined ? RETRY_MS : ASK_AGAIN_MS);
  }
}

async function look({ run, namespace, origin, windowMs, degradedForMs }: OldProtocolOptions): Promise<{
  live: string[];
  sends: { id: string; ageMs: number }[];
}> {
  const prefix = `${namespace}{budget}:${origin}:`;
  const replicas = await run("take", `${prefix}replicas`, (client) => client.hgetall(`${prefix}replicas`));
  const time = await run("take", prefix, (client) => client.eval("return redis.call('TIME')[1]", 1, prefix));
  // Cut to a whole second: calls count as younger than they are.
  const now = Number(time) * 1_000;
  const live = Object.entries(replicas).filter(([, text]) => {
    const reportedAt = Number(text.split("|")[0]);
    return reportedAt > now - SILENT_MS - degradedForMs;
  });
  const flat = await run("take", `${prefix}sends`, (client) =>
    client.zrangebyscore(`${prefix}sends`, now - windowMs, "+inf", "WITHSCORES"),
  );
  const sends: { id: string; ageMs: number }[] = [];
  for (let index = 0; index + 1 < flat.length; index += 2)
    sends.push({ id: `old:${flat[index]}`, ageMs: now - Number(flat[index + 1]) });
  return { live: live.map(([name]) => name), sends };
}
