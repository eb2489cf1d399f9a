/**
 * What a replica knows of the shared budget, and how it keeps up: it reads what is told to all, says that
 * it has, and reads again what it may have missed.
 */
import type { Terms } from "./arbiter.ts";
import { createMirror, type Mirror } from "./mirror.ts";
import type { Asker, KnownSend, LookReply, News, SharedBudget } from "./shared-budget.ts";
import type { Window } from "./windows.ts";

export interface ViewOptions {
  readonly terms: Terms;
  readonly shared: SharedBudget;
  readonly replica: string;
  readonly replicas: number;
  readonly degradedShare: number;
  readonly steady: () => number;
  /** There are more replicas than the settings say. */
  readonly onTooMany: (replicas: number) => void;
  /** Something is no longer held back. */
  readonly onRelief: () => void;
}

export interface View {
  readonly mirror: () => Mirror;
  readonly asker: () => Asker;
  /** Replicas that have gone silent. */
  readonly held: () => number;
  /** The part of each window for one replica that is cut off. */
  readonly share: () => number;
  /** How many sends may be entered that a replica does not know of; of none where it is the only one. */
  readonly slack: () => number;
  /** What may be spent of a window while something is held back for others. */
  readonly limitOf: (window: Window) => number;
  /** Brings what is known, and learns what there is. Rejects as the shared budget does. */
  readonly join: (late: readonly KnownSend[]) => Promise<void>;
  /** Reads what was missed, and says that it was read. @returns false where it has to join first */
  readonly catchUp: () => Promise<boolean>;
  readonly learnOthers: (others: { readonly live: number; readonly held: number }) => void;
  /** A send of this replica's was entered. */
  readonly granted: (id: string, seq: number) => void;
  /** @returns whether it is time to catch up */
  readonly hear: (news: News) => boolean;
}

/** A twentieth of the smallest limit, so that catching up never holds up much. */
export function slackOf({ windows }: Terms): number {
  return Math.max(2, Math.floor(Math.min(...windows.map(({ limit }) => limit)) / 20));
}

export function createView(options: ViewOptions): View {
  const { terms, shared, replica, steady } = options;
  const slack = slackOf(terms);
  let mirror = createMirror(terms);
  let gen = "";
  /** Every send up to this number is in the mirror; the shared budget knows that of so many. */
  let known = 0;
  let said = 0;
  let entry = "0-0";
  let held = 0;
  let names: readonly string[] = [];
  let mostSeen = 1;

  const atMost = (): number => Math.max(options.replicas, mostSeen);
  const share = (): number => Math.min(options.degradedShare, 1 / atMost());

  function learnOthers(others: { readonly live: number; readonly held: number }): void {
    if (others.live > atMost()) options.onTooMany(others.live);
    mostSeen = Math.max(mostSeen, others.live);
    const isRelief = others.held < held;
    ({ held } = others);
    if (isRelief) options.onRelief();
  }

  function learn(reply: Extract<LookReply, { kind: "news" }>): void {
    for (const news of reply.news) follow(mirror, news, steady());
    ({ entry } = reply);
    if (reply.isAll) known = Math.max(known, reply.seq);
    mirror.circuits(reply.circuits, steady());
    names = reply.replicas;
    learnOthers(reply);
  }

  return {
    mirror: () => mirror,
    asker: () => ({ replica, gen, known, mostSeen }),
    held: () => held,
    share,
    slack: () => (atMost() > 1 ? slack : 0),
    limitOf: ({ limit }) => (held === 0 ? limit : limit - held * Math.floor(limit * share()) - slack),
    learnOthers,
    async join(late) {
      // Its own late sends first: the one that brings a send is the one that enters it in the ledger.
      const sends = [...late, ...mirror.known(steady())];
      const joined = await shared.join(replica, { sends, others: names });
      const [fresh, now] = [createMirror(terms), steady()];
      for (const { id, ageMs } of joined.sends) fresh.sent(id, ageMs, now);
      mirror = fresh;
      ({ gen, entry, seq: known } = joined);
      // Until it is told how many there are: all others may have gone silent.
      held = atMost() - 1;
    },
    async catchUp() {
      for (;;) {
        const saying = known;
        const reply = await shared.look({ replica, gen, known: saying, mostSeen }, entry);
        if (reply.kind === "lost") return false;
        said = saying;
        learn(reply);
        if (reply.isAll && known === saying) return true;
      }
    },
    granted(id, seq) {
      mirror.sent(id, -terms.leaseMs, steady());
      if (seq === known + 1) known = seq;
    },
    hear(news) {
      if (news.kind === "circuits") mirror.circuits(news.circuits, steady());
      if (news.kind === "generation") return news.gen !== gen;
      follow(mirror, news, steady());
      if (news.kind !== "sent" || news.seq === undefined || news.seq <= known) return false;
      const isNext = news.seq === known + 1;
      if (isNext) known = news.seq;
      // At half of what others may be ahead of what it is known to know.
      return !isNext || known - said >= Math.ceil(slack / 2);
    },
  };
}

function follow(mirror: Mirror, news: News, now: number): void {
  if (news.kind === "sent") mirror.sent(news.id, news.ageMs, now);
  else if (news.kind === "settled") mirror.settled(news.id, news.ageMs, news.isUnsent, now);
}
