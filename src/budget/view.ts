/**
 * What a replica knows of the shared budget, and how it keeps up: it reads what is told to all, says that
 * it has, and reads again what it may have missed.
 */
import type { Terms } from "./arbiter.ts";
import { appIn, createMirror, type Mirror } from "./mirror.ts";
import { createOthers, type Others, type OthersOptions, slackOf } from "./others.ts";
import type { Asker, KnownSend, LookReply, News, SharedApp, SharedBudget } from "./shared-budget.ts";

export interface ViewOptions extends OthersOptions {
  readonly shared: SharedBudget;
  readonly replica: string;
  readonly steady: () => number;
}

export interface View {
  readonly mirror: () => Mirror;
  readonly others: Others;
  readonly asker: () => Asker;
  /** Brings what is known, and learns what there is. Rejects as the shared budget does. */
  readonly join: (late: readonly KnownSend[]) => Promise<void>;
  /** Reads what was missed, and says that it was read. @returns false where it has to join first */
  readonly catchUp: () => Promise<boolean>;
  /** A send of this replica's was entered. */
  readonly granted: (send: { readonly id: string; readonly seq: number; readonly isOwn: boolean }) => void;
  /** What the shared budget says of apps, or what they do here. */
  readonly learnApps: (apps: readonly SharedApp[]) => void;
  /** @returns whether it is time to catch up */
  readonly hear: (news: News) => boolean;
}

export function createView(options: ViewOptions): View {
  const { terms, shared, replica, steady } = options;
  const others = createOthers(options);
  let mirror = createMirror(terms);
  let gen = "";
  const reading: Reading = { known: 0, said: 0 };
  let entry = "0-0";
  let names: readonly string[] = [];
  const learnApps = (apps: readonly SharedApp[]): void => mirror.apps(apps, steady());
  const asker = (): Asker => ({ replica, gen, known: reading.known, mostSeen: others.mostSeen() });

  function learn(reply: Extract<LookReply, { kind: "news" }>, askedOf: Terms["windows"]): void {
    for (const news of reply.news) follow(mirror, news, steady());
    ({ entry } = reply);
    if (reply.isAll) reading.known = Math.max(reading.known, reply.seq);
    mirror.circuits(reply.circuits, steady());
    learnApps(reply.apps);
    names = reply.replicas;
    others.learn(reply, askedOf);
  }

  return {
    mirror: () => mirror,
    others,
    asker,
    learnApps,
    async join(late) {
      // Its own late sends first: the one that brings a send is the one that enters it in the ledger.
      const sends = [...late, ...mirror.known(steady())];
      const joined = await shared.join(replica, { sends, others: names });
      const [fresh, now] = [createMirror(terms), steady()];
      for (const send of joined.sends) fresh.sent(send, now);
      mirror = fresh;
      ({ gen, entry, seq: reading.known } = joined);
      others.unknown();
    },
    async catchUp() {
      for (;;) {
        const saying = asker();
        const askedOf = terms.windows;
        const reply = await shared.look(saying, entry);
        if (reply.kind === "lost") return false;
        reading.said = saying.known;
        learn(reply, askedOf);
        // What was just read has yet to be said.
        if (reply.isAll && reading.known === saying.known) return true;
      }
    },
    granted({ id, seq, isOwn }) {
      mirror.sent({ id, ageMs: -terms.leaseMs, isOwn }, steady());
      if (!isOwn) learnApps([{ app: appIn(id), askedMs: 0, borrowedMs: 0 }]);
      if (seq === reading.known + 1) reading.known = seq;
    },
    hear(news) {
      if (news.kind === "circuits") mirror.circuits(news.circuits, steady());
      if (news.kind === "generation") return news.gen !== gen;
      if (news.kind === "changed") return true;
      follow(mirror, news, steady());
      return news.kind === "sent" && news.seq !== undefined && isDue(reading, news.seq, terms);
    },
  };
}

/** How far a replica has read: every send up to a number is known here; of so many the shared budget knows that. */
interface Reading {
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

function follow(mirror: Mirror, news: News, now: number): void {
  if (news.kind === "sent") mirror.sent(news, now);
  else if (news.kind === "settled") mirror.settled(news.id, news.ageMs, news.isUnsent, now);
}
