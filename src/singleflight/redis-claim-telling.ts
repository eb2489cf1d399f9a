/**
 * The follower's side: what the leader of a flight is told of those who wait for it here. Each word says all there
 * is to know, so one that gets lost is made up for by the next.
 *
 * It is told once for an app, however many callers it has, and again when there is an app more or less, somebody more
 * urgent, or somebody still waiting when the deadline told of has passed. Of a refresh nothing is said: nobody waits.
 */
import type { Party, Waiting } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import { MOST_APPS } from "../cache/store/redis-messages.ts";

export interface Telling {
  /** Tells who waits, now and whenever there is something new. */
  readonly tell: (waiting: Waiting) => void;
  /** Nobody waits here any more: says so, where the leader believes otherwise. */
  readonly leave: () => void;
  /** There is nobody to tell any more. */
  readonly stop: () => void;
}

/** @param say who waits, and for how many milliseconds at the most */
export function createTelling(clock: Clock, say: (party: Party, forMs: number) => void): Telling {
  /** What the leader has been told, as long as that holds. */
  let told: Party | undefined;
  let isStopped = false;
  let cancel = (): void => undefined;

  function tellNews(waiting: Waiting): void {
    const party = { apps: waiting.apps().slice(0, MOST_APPS), priority: waiting.priority() };
    const forMs = waiting.deadlineAt() - clock.now();
    if (isStopped || forMs <= 0 || !isOfCallers(party) || isSame(party, told)) return;
    cancel();
    told = party;
    say(party, forMs);
    cancel = clock.after(forMs, () => {
      told = undefined;
      tellNews(waiting);
    });
  }

  function stop(): void {
    isStopped = true;
    cancel();
  }

  return {
    tell(waiting) {
      waiting.onChange(() => tellNews(waiting));
      tellNews(waiting);
    },
    leave() {
      if (!isStopped && told !== undefined) say({ ...told, apps: [] }, 0);
      stop();
    },
    stop,
  };
}

function isOfCallers({ priority }: Party): boolean {
  return priority === "interactive" || priority === "background";
}

function isSame(party: Party, told: Party | undefined): boolean {
  return (
    party.priority === told?.priority &&
    party.apps.length === told.apps.length &&
    party.apps.every((app) => told.apps.includes(app))
  );
}
