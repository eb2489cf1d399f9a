/**
 * [6] The latest time that the script may have, by this process's own clock. Redis' clock may run fast or jump. It counts
 * only as far as the monotonic clocks of the replicas confirm it.
 *
 * The anchor is the smallest difference between the time in a reply and the own clock at that moment. So anchor + own
 * clock + timeout is the latest time that a command can find. An error does not add up from command to command.
 *
 * A process that Redis has not answered for a while does not know whether the time stood still meanwhile. So it watches
 * first: its commands change nothing. If the time moves, other replicas move it, and this process takes its anchor from
 * them. If not, this process is alone. Then Redis' clock less five seconds counts, within the own anchor if there is one.
 */
import { DRIFT } from "./purse-sizes.ts";
import type { Reply, Request } from "./redis-script.ts";

/** A new process watches for this long. Other replicas send a command several times in this time. */
export const SETTLE_MS = 2_000;
/** A replica that comes back watches for this long. */
const RETURN_MS = 1_000;
/** Without a reply for longer, a replica must watch again. */
export const SILENT_MS = 1_000;

type AskedTime = Pick<Request, "latest" | "stoodAt" | "isWatching">;
type HeardTime = Pick<Extract<Reply, { kind: "done" }>, "time" | "isWatching">;

export interface RedisTime {
  /** What a command says about time. */
  readonly ask: (now: number) => AskedTime;
  readonly heard: (reply: HeardTime, askedAt: number, now: number) => void;
  /** When it has watched long enough; infinite before the first reply. */
  readonly settlesAt: () => number;
  /** The script's time now, roughly. */
  readonly estimate: (now: number) => number;
}

interface Watch {
  readonly since: number;
  /** The time of the first reply, as long as all replies have the same. */
  readonly stoodAt: number | undefined;
  readonly highest: number;
}

/** @param timeoutMs a reply that takes longer is ignored */
export function createRedisTime(timeoutMs: number): RedisTime {
  let anchor: { readonly offset: number; readonly at: number } | undefined;
  let last = { offset: 0, askedAt: Number.NEGATIVE_INFINITY };
  let isWatching = true;
  let watch: Watch | undefined;

  const aged = (now: number): number =>
    anchor === undefined ? Number.POSITIVE_INFINITY : anchor.offset + Math.max(0, now - anchor.at) * DRIFT;
  const lower = (offset: number, now: number): void => {
    anchor = { offset: Math.min(aged(now), offset), at: now };
  };
  const settleMs = (): number => (anchor === undefined ? SETTLE_MS : RETURN_MS);

  return {
    ask(now) {
      if (now - last.askedAt > SILENT_MS) [isWatching, watch] = [true, undefined];
      if (isWatching) {
        if (watch === undefined || now < watch.since + settleMs())
          return { latest: undefined, stoodAt: undefined, isWatching: true };
        // The anchor is not above that of the others, or that of those who moved the time last.
        if (watch.stoodAt === undefined) anchor = { offset: watch.highest - timeoutMs, at: now };
        else if (anchor !== undefined)
          anchor = { offset: Math.max(aged(now), last.offset - timeoutMs), at: now };
      }
      const latest = anchor === undefined ? undefined : Math.floor(aged(now) + now + timeoutMs);
      return { latest, stoodAt: isWatching ? watch?.stoodAt : undefined, isWatching: false };
    },
    heard({ time, isWatching: mustWatch }, askedAt, now) {
      const offset = time - now;
      last = { offset, askedAt };
      if (!mustWatch) {
        [isWatching, watch] = [false, undefined];
        return lower(offset, now);
      }
      isWatching = true;
      const { since, stoodAt, highest } = watch ?? { since: now, stoodAt: time, highest: offset };
      watch = { since, stoodAt: stoodAt === time ? time : undefined, highest: Math.max(highest, offset) };
    },
    settlesAt: () => (isWatching ? (watch ? watch.since + settleMs() : Number.POSITIVE_INFINITY) : 0),
    estimate: (now) => last.offset + now,
  };
}
