import type { SendEnd } from "../types.ts";
import type { Wish } from "./allowance.ts";
import type { KnownSend } from "./shared-budget.ts";

/** A send of a replica that was cut off; instants are by its monotonic clock. */
interface LateSend {
  readonly id: string;
  readonly wish: Wish;
  /** Under which it was allowed (`limitsText`). */
  readonly limits: string;
  readonly sentAt: number;
  /** It has arrived by then. */
  arrivedBy: number;
  end: { readonly status: string; readonly durationMs: number } | undefined;
}

/** What a replica sent while it was cut off, to be told when it joins again. */
export interface LateSends {
  readonly sent: (send: Omit<LateSend, "arrivedBy" | "end"> & { readonly until: number }) => void;
  /** @returns whether it is one of these; one that never went is dropped */
  readonly ended: (id: string, end: SendEnd | undefined, arrivedAt: number) => boolean;
  readonly known: (now: number) => KnownSend[];
  readonly clear: () => void;
}

export function createLateSends(): LateSends {
  const sends = new Map<string, LateSend>();
  return {
    sent({ until, ...send }) {
      sends.set(send.id, { ...send, arrivedBy: until, end: undefined });
    },
    ended(id, end, arrivedAt) {
      const send = sends.get(id);
      if (send === undefined) return false;
      if (end === undefined) sends.delete(id);
      else {
        send.arrivedBy = arrivedAt;
        send.end = { status: String(end.status), durationMs: end.durationMs };
      }
      return true;
    },
    known: (now) =>
      [...sends.values()].map(({ id, wish, limits, sentAt, arrivedBy, end }) => ({
        id,
        ageMs: now - arrivedBy,
        late: { wish, limits, sentMs: now - sentAt, end },
      })),
    clear: () => sends.clear(),
  };
}
