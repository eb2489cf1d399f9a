/** Logs each sentence of the status twice: when it becomes true, and when it is over. */
import { type Clock, every } from "../../process/clock.ts";
import type { Found, Sentence } from "./sentence-table.ts";

/** Writes a line to the log. */
export type Say = (level: "info" | "warn", text: string, fields: object) => void;

const LOOK_EVERY_MS = 5_000;
/** A sentence is over when it was not true for this long. Otherwise a window that is often spent would fill the log. */
const OVER_AFTER_MS = 60_000;

// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createSentenceLog(clock: Clock, say: Say, sentences: () => readonly Omit<Found, "hurt">[]) {
  const known = new Map<string, { readonly sentence: Sentence; readonly firstAt: number; lastAt: number }>();
  let cancel = (): void => undefined;

  function look(): void {
    const at = clock.now();
    for (const { key, ...sentence } of sentences()) {
      if (sentence.level === "good") continue;
      const before = known.get(key);
      if (before === undefined) {
        known.set(key, { sentence, firstAt: at, lastAt: at });
        say("warn", sentence.text, { sentence: sentence.id });
      } else before.lastAt = at;
    }
    for (const [key, { sentence, firstAt, lastAt }] of known) {
      if (at - lastAt < OVER_AFTER_MS) continue;
      known.delete(key);
      say("info", `Over: ${sentence.text}`, { sentence: sentence.id, forMs: lastAt - firstAt });
    }
  }

  return {
    start: (): void => void (cancel = every(clock, LOOK_EVERY_MS, look)),
    stop: (): void => cancel(),
  };
}
