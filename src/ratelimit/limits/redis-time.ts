/**
 * [6] The script's time, as the monotonic clock of this process shows it: the time in a reply, and what has passed since.
 * That is never ahead of what has really passed. The script's time follows the replica that shows the latest.
 */
import { DRIFT } from "./purse-sizes.ts";
import type { Done, Request } from "./redis-script.ts";

/** A new process watches for this long. Other replicas send a command several times in this time. */
export const JOIN_MS = 2_000;

export class RedisTime {
  #joinedBy = 0;
  #shown: { readonly time: number; readonly at: number } | undefined;

  /** What a command says about time. */
  ask(now: number): Pick<Request, "time" | "joinedBy"> {
    return { time: this.at(now), joinedBy: this.#joinedBy };
  }

  at(now: number): number | undefined {
    return this.#shown && Math.floor(this.#shown.time + (now - this.#shown.at) * (1 - DRIFT));
  }

  heard({ time, joinedBy }: Pick<Done, "time" | "joinedBy">, now: number): void {
    // The script has not known the time that this process showed. So that is forgotten.
    const isNew = joinedBy !== this.#joinedBy;
    this.#joinedBy = joinedBy;
    if (isNew || time > (this.at(now) ?? 0)) this.#shown = { time, at: now };
  }
}
