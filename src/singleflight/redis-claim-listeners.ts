/**
 * Who waits for which flight of another replica to end. A listener hears everything about its key from
 * when it begins to listen, which is before it knows whose flight it will wait for.
 */
import type { ClaimEnd } from "../types.ts";
import type { RedisMessage } from "../cache/store/redis-messages.ts";

export interface Listener {
  /** Calls back once, when a holder's flight has ended; at once where that has been heard already. */
  readonly onEnd: (holder: string, listen: (end: ClaimEnd) => void) => void;
  readonly stop: () => void;
  readonly isStopped: () => boolean;
}

export interface Listeners {
  readonly listen: (key: string) => Listener;
  readonly onEnded: (message: Extract<RedisMessage, { kind: "ended" }>) => void;
  /** Nothing can be relied on any more: every flight waited for is vacant. */
  readonly vacateAll: () => void;
}

/** What one listener has heard, and whom it tells. */
interface Ear {
  readonly heard: Map<string, ClaimEnd>;
  isVacated: boolean;
  tell: (holder: string, end: ClaimEnd) => void;
  vacate: () => void;
}

export function createListeners(): Listeners {
  const ears = new Map<string, Set<Ear>>();

  function stop(key: string, ear: Ear): void {
    const ofKey = ears.get(key);
    ofKey?.delete(ear);
    if (ofKey?.size === 0) ears.delete(key);
  }

  return {
    listen(key) {
      const ear: Ear = {
        heard: new Map(),
        isVacated: false,
        tell: (holder, end) => void ear.heard.set(holder, end),
        vacate: () => (ear.isVacated = true),
      };
      const ofKey = ears.get(key) ?? new Set();
      ears.set(key, ofKey.add(ear));
      return {
        stop: () => stop(key, ear),
        isStopped: () => ears.get(key)?.has(ear) !== true,
        onEnd(holder, listen) {
          const end = ear.isVacated ? VACANT : ear.heard.get(holder);
          if (end !== undefined) return listen(end);
          ear.tell = (ender, end) => {
            if (ender === holder) listen(end);
          };
          ear.vacate = () => listen(VACANT);
        },
      };
    },
    onEnded({ key, holder, end }) {
      for (const ear of ears.get(key) ?? []) ear.tell(holder, end);
    },
    vacateAll() {
      for (const ofKey of ears.values()) for (const ear of ofKey) ear.vacate();
    },
  };
}

const VACANT: ClaimEnd = { kind: "vacant" };
