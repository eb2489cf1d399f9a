/**
 * What a replica knows of the shared budget, and how it keeps up: it reads what is told to all, says that
 * it has, and reads again what it may have missed.
 */
import type { Terms } from "./arbiter.ts";
import { createMirror, type Mirror } from "./mirror.ts";
import { createOthers, type Others, type OthersOptions, slackOf } from "./others.ts";
import type { Asker, KnownSend, LookReply, News, SharedBudget } from "./shared-budget.ts";

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
  readonly granted: (id: string, seq: number) => void;
  /** @returns whether it is time to catch up */
  readonly hear: (news: News) => boolean;
}

export function createView(options: ViewOptions): View {
  const { terms, shared, replica, steady } = options;
  const others = createOthers(options);
  let mirror = createMirror(terms);
  let gen = "";
  /** Every send up to this number is in the mirror; the shared budget knows that of so many. */
  let known = 0;
  let said = 0;
  let entry = "0-0";
  let names: readonly string[] = [];
  const asker = (): Asker => ({ replica, gen, known, mostSeen: others.mostSeen() });

  function learn(reply: Extract<LookReply, { kind: "news" }>, askedOf: Terms["windows"]): void {
    for (const news of reply.news) follow(mirror, news, steady());
    ({ entry } = reply);
    if (reply.isAll) known = Math.max(known, reply.seq);
    mirror.circuits(reply.circuits, steady());
    names = reply.replicas;
    others.learn(reply, askedOf);
  }

  return {
    mirror: () => mirror,
    others,
    asker,
    async join(late) {
      // Its own late sends first: the one that brings a send is the one that enters it in the ledger.
      const sends = [...late, ...mirror.known(steady())];
      const joined = await shared.join(replica, { sends, others: names });
      const [fresh, now] = [createMirror(terms), steady()];
      for (const { id, ageMs } of joined.sends) fresh.sent(id, ageMs, now);
      mirror = fresh;
      ({ gen, entry, seq: known } = joined);
      others.unknown();
    },
    async catchUp() {
      for (;;) {
        const saying = asker();
        const askedOf = terms.windows;
        const reply = await shared.look(saying, entry);
        if (reply.kind === "lost") return false;
        said = saying.known;
        learn(reply, askedOf);
        // What was just read has yet to be said.
        if (reply.isAll && known === saying.known) return true;
      }
    },
    granted(id, seq) {
      mirror.sent(id, -terms.leaseMs, steady());
      if (seq === known + 1) known = seq;
    },
    hear(news) {
      if (news.kind === "circuits") mirror.circuits(news.circuits, steady());
      if (news.kind === "generation") return news.gen !== gen;
      if (news.kind === "changed") return true;
      follow(mirror, news, steady());
      if (news.kind !== "sent" || news.seq === undefined || news.seq <= known) return false;
      const isNext = news.seq === known + 1;
      if (isNext) known = news.seq;
      // At half of what others may be ahead of what it is known to know.
      return !isNext || known - said >= Math.ceil(slackOf(terms) / 2);
    },
  };
}

function follow(mirror: Mirror, news: News, now: number): void {
  if (news.kind === "sent") mirror.sent(news.id, news.ageMs, now);
  else if (news.kind === "settled") mirror.settled(news.id, news.ageMs, news.isUnsent, now);
}
