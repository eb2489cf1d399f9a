/**
 * What a replica knows of the shared budget, and how it keeps up: it reads what is told to all, says that
 * it has, and reads again what it may have missed.
 */
import type { Terms } from "./arbiter.ts";
import { createMirror, type Mirror } from "./mirror.ts";
import { createOthers, type Others, type OthersOptions, slackOf } from "./others.ts";
import type {
  Asker,
  EnteredSend,
  KnownSend,
  LookReply,
  News,
  SharedApp,
  SharedBudget,
} from "./shared-budget.ts";

export interface ViewOptions extends OthersOptions {
  readonly shared: SharedBudget;
  readonly replica: string;
  readonly monotonic: () => number;
  /** Who waits for a place here: see `Asker`. */
  readonly queued: () => Asker["queued"];
}

export interface View {
  readonly mirror: () => Mirror;
  readonly others: Others;
  readonly asker: () => Asker;
  /** Brings what is known, and learns what there is. Rejects as the shared budget does. */
  readonly join: (late: readonly KnownSend[]) => Promise<void>;
  /**
   * Reads what was missed, and says that it was read, for as long as that is wanted: rejects where it no longer is.
   * @returns false where it has to join first
   */
  readonly catchUp: (isWanted: () => boolean) => Promise<boolean>;
  /** A send of this replica's was entered. */
  readonly granted: (send: { readonly id: string; readonly seq: number; readonly isOwn: boolean }) => void;
  /** What the shared budget says of apps, or what they do here. */
  readonly learnApps: (apps: readonly SharedApp[]) => void;
  /** @returns whether it is time to catch up */
  readonly hear: (news: News) => boolean;
}

export function createView(options: ViewOptions): View {
  const { terms, shared, replica, monotonic } = options;
  const others = createOthers(options);
  let mirror = createMirror(terms);
  const reading: Reading = { gen: "", entry: "0-0", known: 0, said: 0 };
  let names: readonly string[] = [];
  const asker = (): Asker => ({
    replica,
    gen: reading.gen,
    known: reading.known,
    mostSeen: others.mostSeen(),
    queued: options.queued(),
  });

  function learn(reply: Extract<LookReply, { kind: "news" }>, askedOf: Terms["windows"]): void {
    for (const news of reply.news) mirror.follow(news, monotonic());
    reading.entry = reply.entry;
    if (reply.isAll) reading.known = Math.max(reading.known, reply.seq);
    mirror.circuits(reply.circuits, monotonic());
    mirror.apps(reply.apps, monotonic());
    names = reply.replicas;
    others.learn(reply, askedOf);
  }

  return {
    mirror: () => mirror,
    others,
    asker,
    learnApps: (apps) => mirror.apps(apps, monotonic()),
    async join(late) {
      // Its own late sends first: the one that brings a send is the one that enters it in the ledger.
      const askedAt = monotonic();
      const sends = [...late, ...mirror.known(askedAt)];
      const joined = await shared.join(replica, { sends, others: names });
      mirror = mirrorOf(terms, joined.sends, { sends, askedAt }, monotonic());
      ({ gen: reading.gen, entry: reading.entry, seq: reading.known } = joined);
      others.unknown();
    },
    async catchUp(isWanted) {
      for (;;) {
        if (!isWanted()) throw new Error("cut off while it was catching up");
        const saying = asker();
        const askedOf = terms.windows;
        const reply = await shared.look(saying, reading.entry);
        if (reply.kind === "lost") return false;
        reading.said = saying.known;
        learn(reply, askedOf);
        // What was just read has yet to be said.
        if (reply.isAll && reading.known === saying.known) return true;
      }
    },
    granted({ seq, ...send }) {
      mirror.granted(send, monotonic());
      if (seq === reading.known + 1) reading.known = seq;
    },
    hear(news) {
      if (news.kind === "generation") return news.gen !== reading.gen;
      if (news.kind === "changed") return true;
      mirror.follow(news, monotonic());
      return news.kind === "sent" && news.seq !== undefined && isDue(reading, news.seq, terms);
    },
  };
}

/** What was read on joining, and what was brought: a restart in between may have lost that. */
function mirrorOf(
  terms: Terms,
  read: readonly EnteredSend[],
  { sends, askedAt }: { readonly sends: readonly KnownSend[]; readonly askedAt: number },
  now: number,
): Mirror {
  const brought = sends.map(({ id, ageMs }) => ({ id, ageMs: ageMs + now - askedAt, isOwn: false }));
  const mirror = createMirror(terms);
  for (const send of [...read, ...brought]) mirror.sent(send, now);
  return mirror;
}

/** How far a replica has read: every send up to a number is known here; of so many the shared budget knows that. */
interface Reading {
  /** The generation it has joined. */
  gen: string;
  /** The last line of the ledger that was read. */
  entry: string;
  known: number;
  said: number;
}

/** @returns whether it is time to catch up, now that a send of this number was heard of */
function isDue(reading: Reading, seq: number, terms: Terms): boolean {
  if (seq <= reading.known) return false;
  const isNext = seq === reading.known + 1;
  if (isNext) reading.known = seq;
  // At half of what others may be ahead of what it is known to know.
  return !isNext || reading.known - reading.said >= Math.ceil(slackOf(terms) / 2);
}
