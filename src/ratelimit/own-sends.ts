/**
 * The calls that this replica sent, by its own clock. It counts them while it is cut off, and reports them to Redis.
 */
import type { SendEnd } from "../types.ts";
import type { CallRecord, Ended, KnownSend, Take } from "./redis-limiter.ts";
import { DRIFT } from "./escrow.ts";
import { createSlidingWindowLog, type SlidingWindowLog } from "./sliding-window.ts";

interface OwnSend {
  readonly app: string;
  readonly call: CallRecord;
  readonly sentAt: number;
  /** It counts from this instant. */
  at: number;
  /** Redis granted the permit, or has confirmed the upload. */
  isKnown: boolean;
  /** [11] Redis may count it: it is known, or a command that uploads it is under way. */
  mayBeKnown: boolean;
  ended?: Pick<Ended, "status" | "durationMs">;
}

export interface OwnSends {
  readonly log: SlidingWindowLog;
  /** Enters a permit. @param latest the latest instant at which its call can arrive */
  readonly enter: (
    take: Take,
    how: { readonly now: number; readonly latest: number; readonly isKnown: boolean },
  ) => void;
  /**
   * A call has ended. Without `end` it was not sent, and its permit is released.
   *
   * [11] A released permit that Redis may count stays counted here until Redis has confirmed the release. Otherwise this
   * replica could use the permit a second time, while Redis takes it for a call that this replica has already made.
   */
  readonly end: (id: string, app: string, now: number, end: SendEnd | undefined) => void;
  /** Calls that have ended and that Redis has not confirmed. They are returned again until `confirm` is called. */
  readonly ended: (now: number) => { readonly reports: readonly Ended[]; readonly confirm: () => void };
  readonly hasEnded: () => boolean;
  /** The calls that Redis does not know. With `since`, also all calls that count from that instant or later. */
  readonly uploads: (now: number, since?: number) => KnownSend[];
  readonly hasUploads: () => boolean;
  /** Redis has confirmed an upload. */
  readonly confirm: (sends: readonly KnownSend[]) => void;
  /** Forgets calls that count from earlier instants. */
  readonly forget: (before: number) => void;
}

/** The least that this age can be by Redis' clock. */
const leastAge = (ageMs: number): number => Math.floor(ageMs > 0 ? ageMs * (1 - DRIFT) : ageMs);

/** Ended calls in one command. */
const MOST_ENDS = 500;

type End = Omit<Ended, "id" | "ageMs"> & { readonly arrivedAt: number };

export function createOwnSends(): OwnSends {
  const log = createSlidingWindowLog();
  const sends = new Map<string, OwnSend>();
  const ends = new Map<string, End>();

  function drop(id: string): void {
    sends.delete(id);
    log.drop(id);
  }

  return {
    log,
    enter({ id, app, resource, cause, query }, { now, latest, isKnown }) {
      const call = { resource, cause, query };
      sends.set(id, { app, call, sentAt: now, at: latest, isKnown, mayBeKnown: isKnown });
      log.enter(id, app, latest);
    },
    end(id, app, now, end) {
      const arrivedAt = end === undefined ? now : now - (end.durationMs - end.arrivedAfterMs);
      const status = end?.status ?? "unsent";
      const durationMs = end?.durationMs ?? 0;
      // Also for a call whose upload is under way. The end of a call that Redis does not know has no effect.
      ends.set(id, { app, arrivedAt, status, durationMs });
      const send = sends.get(id);
      if (send === undefined) return;
      if (end === undefined) {
        if (!send.mayBeKnown) drop(id);
        return;
      }
      send.at = Math.min(send.at, arrivedAt);
      send.ended = { status, durationMs };
      log.enter(id, app, send.at);
    },
    ended: (now) => unconfirmed(ends, now, drop),
    hasEnded: () => ends.size > 0,
    uploads: (now, since = Number.POSITIVE_INFINITY) =>
      [...sends]
        .filter(([, { isKnown, at }]) => !isKnown || at >= since)
        .map(([id, send]) => {
          send.mayBeKnown = true;
          return knownSend(id, send, now);
        }),
    hasUploads: () => [...sends.values()].some(({ isKnown }) => !isKnown),
    confirm(known) {
      for (const { id } of known) {
        const send = sends.get(id);
        if (send !== undefined) send.isKnown = true;
      }
    },
    forget(before) {
      log.forget(before);
      for (const [id, { at }] of sends) {
        if (at >= before) return;
        sends.delete(id);
      }
    },
  };
}

function unconfirmed(
  ends: Map<string, End>,
  now: number,
  drop: (id: string) => void,
): ReturnType<OwnSends["ended"]> {
  const batch = [...ends].slice(0, MOST_ENDS);
  const reports = batch.map(([id, { arrivedAt, ...end }]) => {
    return { id, ...end, ageMs: leastAge(Math.max(0, now - arrivedAt)) };
  });
  const confirm = (): void => {
    for (const [id, { status }] of batch) {
      ends.delete(id);
      if (status === "unsent") drop(id);
    }
  };
  return { reports, confirm };
}

function knownSend(id: string, { app, at, isKnown, call, sentAt, ended }: OwnSend, now: number): KnownSend {
  return {
    id,
    app,
    ageMs: leastAge(now - at),
    wasKnown: isKnown,
    sentMs: leastAge(now - sentAt),
    ended,
    call: isKnown ? undefined : call,
  };
}
