/**
 * The leader's side of what followers say: who waits at which replica for a flight led here. It is believed until
 * that replica says otherwise, or until the last one it told of has passed his deadline: so a replica that dies, or
 * whose last word gets lost, is forgotten. All of it is forgotten with the flight.
 */
import type { FlightWaiting, Party } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import type { RedisMessage } from "../cache/store/redis-messages.ts";

/** More replicas than that are not listened to, for one flight. */
const MOST_REPLICAS = 256;

/** What is heard for one holder. */
export interface Hearing {
  /** Passes on what was heard, and what will be. */
  readonly passOn: (waiting: Pick<FlightWaiting, "elsewhere">) => void;
  readonly stop: () => void;
}

export interface Hearings {
  /** Hears what is for this holder; to be called before others can know of it. */
  readonly listen: (holder: string) => Hearing;
  readonly onWaiting: (message: Extract<RedisMessage, { kind: "waiting" }>) => void;
}

export function createHearings(clock: Clock): Hearings {
  const byHolder = new Map<string, (replica: string, party: Party, forMs: number) => void>();
  return {
    listen(holder) {
      const { hear, passOn, forgetAll } = createParties(clock);
      byHolder.set(holder, hear);
      return {
        passOn,
        stop() {
          byHolder.delete(holder);
          forgetAll();
        },
      };
    },
    onWaiting: ({ holder, from, party, forMs }) => byHolder.get(holder)?.(from, party, forMs),
  };
}

interface Parties {
  readonly hear: (replica: string, party: Party, forMs: number) => void;
  readonly passOn: Hearing["passOn"];
  readonly forgetAll: () => void;
}

function createParties(clock: Clock): Parties {
  const parties = new Map<string, { readonly party: Party; readonly cancel: () => void }>();
  let tell: FlightWaiting["elsewhere"] = () => undefined;

  function forget(replica: string): void {
    const known = parties.get(replica);
    if (known === undefined) return;
    known.cancel();
    parties.delete(replica);
    tell(replica, { ...known.party, apps: [] });
  }

  return {
    hear(replica, party, forMs) {
      if (party.apps.length === 0 || forMs <= 0) return forget(replica);
      const known = parties.get(replica);
      if (known === undefined && parties.size >= MOST_REPLICAS) return;
      known?.cancel();
      parties.set(replica, { party, cancel: clock.after(forMs, () => forget(replica)) });
      tell(replica, party);
    },
    passOn(waiting) {
      tell = waiting.elsewhere;
      for (const [replica, { party }] of parties) tell(replica, party);
    },
    forgetAll() {
      for (const { cancel } of parties.values()) cancel();
      parties.clear();
    },
  };
}
