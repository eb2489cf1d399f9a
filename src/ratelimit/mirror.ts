/**
 * What a replica knows of the shared budget: a copy that follows the news. It is for predictions, and for
 * what may be spent when the budget cannot be reached; who may send is decided there.
 *
 * Instants are by this process' monotonic clock. What is heard of others is entered as late as it can have
 * been: news takes time to arrive, so the copy errs on the side of what is spent.
 */
import {
  arrive,
  enter,
  enterAs,
  giveBack,
  heardOf,
  newStanding,
  type Standing,
  type Terms,
} from "./arbiter.ts";
import type { Circuit } from "./circuit.ts";
import type { EnteredSend, KnownSend, News, SharedApp, SharedCircuit } from "./shared-budget.ts";
import { longestMs } from "./terms.ts";
import { keptMs } from "./windows.ts";

export interface Mirror {
  readonly standing: Standing;
  /** Enters a send that is not known yet. */
  readonly sent: (send: EnteredSend, now: number) => void;
  /** Enters a send that may go now. */
  readonly granted: (send: Omit<EnteredSend, "ageMs">, now: number) => void;
  readonly settled: (id: string, ageMs: number, isUnsent: boolean, now: number) => void;
  readonly circuits: (circuits: readonly SharedCircuit[], now: number) => void;
  /** What happened, as it was told. */
  readonly follow: (news: News, now: number) => void;
  /** Who is about, and who has borrowed: by that the shared budget decides how fast an app may go. */
  readonly apps: (apps: readonly SharedApp[], now: number) => void;
  /** Everything that counts in a window, to be told by its age. */
  readonly known: (now: number) => KnownSend[];
}

/** The app that an id ends with. */
export function appIn(id: string): string {
  return id.slice(id.lastIndexOf("@") + 1);
}

export function createMirror(terms: Terms): Mirror {
  const standing = newStanding();
  /** When each arrives, or has arrived; roughly in order of time. */
  const instants = new Map<string, number>();

  function forgetOld(now: number): void {
    const horizonMs = keptMs(terms.windows);
    for (const [id, at] of instants) {
      if (at >= now - horizonMs) return;
      instants.delete(id);
    }
  }

  const mirror: Mirror = {
    standing,
    sent({ id, ageMs, isOwn }, now) {
      if (instants.has(id)) return;
      forgetOld(now);
      const at = now - ageMs;
      instants.set(id, at);
      enterAs(standing, { id, app: appIn(id), until: at, isOwn });
      if (at <= now) arrive(standing, { id, app: appIn(id) }, at);
    },
    granted({ id, isOwn }, now) {
      mirror.sent({ id, ageMs: -terms.leaseMs, isOwn }, now);
      if (!isOwn) heardOf(standing, appIn(id), { askedAt: now, borrowedAt: now });
    },
    settled(id, ageMs, isUnsent, now) {
      if (!instants.has(id) && isUnsent) return;
      // One that was overlooked: it can move while all are read, a page at a time.
      if (!instants.has(id)) enter(standing, terms, { id, app: appIn(id), until: now - ageMs }, now);
      instants.delete(id);
      if (isUnsent) return giveBack(standing, { id, app: appIn(id) });
      instants.set(id, now - ageMs);
      arrive(standing, { id, app: appIn(id) }, now - ageMs);
    },
    circuits(circuits, now) {
      standing.circuits.clear();
      for (const circuit of circuits) standing.circuits.set(circuit.scope, circuitAt(circuit, now));
    },
    follow(news, now) {
      if (news.kind === "sent") mirror.sent(news, now);
      else if (news.kind === "settled") mirror.settled(news.id, news.ageMs, news.isUnsent, now);
      else if (news.kind === "circuits") mirror.circuits(news.circuits, now);
    },
    apps(apps, now) {
      for (const { app, askedMs, borrowedMs = Number.POSITIVE_INFINITY } of apps)
        heardOf(standing, app, { askedAt: now - askedMs, borrowedAt: now - borrowedMs });
    },
    known(now) {
      const horizon = now - longestMs(terms);
      return [...instants].flatMap(([id, at]) => (at < horizon ? [] : [{ id, ageMs: now - at }]));
    },
  };
  return mirror;
}

function circuitAt({ cause, coolOffMs, openForMs, probe, probeForMs }: SharedCircuit, now: number): Circuit {
  return {
    cause,
    coolOffMs,
    openUntil: now + openForMs,
    probe: probe === "" ? undefined : probe,
    probeUntil: now + probeForMs,
  };
}
