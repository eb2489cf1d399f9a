/**
 * What this replica sent itself, by its own clock: what it counts while it is cut off, and what it tells Redis.
 */
import type { SendEnd } from "../types.ts";
import type { CallRecord, Ended, KnownSend, Take } from "./redis-limiter.ts";
import { DRIFT } from "./escrow.ts";
import { createSlidingWindowLog, type SlidingWindowLog } from "./sliding-window.ts";

interface OwnSend {
  readonly app: string;
  readonly call: CallRecord;
  readonly sentAt: number;
  /** It counts from here. */
  at: number;
  /** Redis knows of it. */
  wasTold: boolean;
  /** Redis may count it: it granted the permit, or a command that reports it is under way. */
  mayBeKnown: boolean;
  ended?: Pick<Ended, "status" | "durationMs">;
}

export interface OwnSends {
  readonly log: SlidingWindowLog;
  /** Enters a permit. @param latest the latest instant at which its call can arrive */
  readonly enter: (
    take: Take,
    how: { readonly now: number; readonly latest: number; readonly wasTold: boolean },
  ) => void;
  /**
   * A call has ended; without `end` it was not sent. A permit that Redis may count is not free here until Redis knows
   * of its end: otherwise this replica could use the permit again while Redis still counts it as used before.
   */
  readonly end: (id: string, app: string, now: number, end: SendEnd | undefined) => void;
  /** Calls that ended and of which Redis is yet to be told; they are told again where `confirm` is not called. */
  readonly ended: (now: number) => { readonly reports: readonly Ended[]; readonly confirm: () => void };
  readonly hasEnded: () => boolean;
  /** The calls to report to Redis now: those it does not know. With `since`, also all that count from later instants. */
  readonly report: (now: number, since?: number) => KnownSend[];
  readonly hasUnreported: () => boolean;
  /** Redis has answered the report. */
  readonly told: (sends: readonly KnownSend[]) => void;
  readonly forget: (before: number) => void;
}

/** An age by this clock that is not more than by Redis'. */
const sure = (ageMs: number): number => Math.floor(ageMs > 0 ? ageMs * (1 - DRIFT) : ageMs);

/** Ends told in one message. */
const MOST_ENDS = 500;

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
    enter({ id, app, resource, cause, query }, { now, latest, wasTold }) {
      const call = { resource, cause, query };
      sends.set(id, { app, call, sentAt: now, at: latest, wasTold, mayBeKnown: wasTold });
      log.enter(id, app, latest);
    },
    end(id, app, now, end) {
      const arrivedAt = end === undefined ? now : now - (end.durationMs - end.arrivedAfterMs);
      const status = end?.status ?? "unsent";
      const durationMs = end?.durationMs ?? 0;
      // Also where Redis is only just being told of it: an end of what it does not know has no effect.
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
    ended: (now) => endsNow(ends, now, drop),
    hasEnded: () => ends.size > 0,
    report: (now, since = Number.POSITIVE_INFINITY) =>
      [...sends]
        .filter(([, { wasTold, at }]) => !wasTold || at >= since)
        .map(([id, send]) => {
          send.mayBeKnown = true;
          return knownSend(id, send, now);
        }),
    hasUnreported: () => [...sends.values()].some(({ wasTold }) => !wasTold),
    told(known) {
      for (const { id } of known) {
        const send = sends.get(id);
        if (send !== undefined) send.wasTold = true;
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

type End = Omit<Ended, "id" | "ageMs"> & { readonly arrivedAt: number };

function endsNow(
  ends: Map<string, End>,
  now: number,
  drop: (id: string) => void,
): ReturnType<OwnSends["ended"]> {
  const batch = [...ends].slice(0, MOST_ENDS);
  const reports = batch.map(([id, { arrivedAt, ...end }]) => {
    return { id, ...end, ageMs: sure(Math.max(0, now - arrivedAt)) };
  });
  const confirm = (): void => {
    for (const [id, { status }] of batch) {
      ends.delete(id);
      if (status === "unsent") drop(id);
    }
  };
  return { reports, confirm };
}

function knownSend(id: string, { app, at, wasTold, call, sentAt, ended }: OwnSend, now: number): KnownSend {
  return {
    id,
    app,
    ageMs: sure(now - at),
    wasTold,
    sentMs: sure(now - sentAt),
    ended,
    call: wasTold ? undefined : call,
  };
}
