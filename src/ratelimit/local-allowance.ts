/**
 * The budget of a process that keeps it without Redis: the arbiter decides, the ledger remembers what was
 * sent over a restart. Processes on one ledger share the budget: each decides while the others cannot, and
 * knows by then what they have sent. What is told of the circuits is this process' own.
 */
import type { OriginName } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import type { Allowance, Grant, Taken, Wish } from "./allowance.ts";
import { decide, giveBack, grant, newStanding, settle, type Standing, type Terms } from "./arbiter.ts";
import type { LedgerCompletion, LedgerEntry, LedgerNews, OwnLedger } from "../usage/ledger.ts";
import { limitsText } from "../usage/limits-text.ts";
import { begin, keepUp, type Moment } from "./neighbours.ts";
import { expectation, overviewOf, sharesOf } from "./overview.ts";
import { keptMs } from "./windows.ts";

export interface LocalAllowanceOptions {
  readonly origin: OriginName;
  readonly terms: Terms;
  readonly ledger: OwnLedger;
  readonly clock: Clock;
  /** A name for this process, unlike any other's, past ones included. */
  readonly replica: string;
}

/** When it is asked again where another process does not let go of the ledger. */
const ASK_AGAIN_MS = 100;

export function createLocalAllowance(options: LocalAllowanceOptions): Allowance {
  const { origin, terms, ledger, clock, replica } = options;
  const { standing, current, decideWith } = createKnowledge(options);
  let sends = 0;
  let changed = (): void => undefined;
  const nextId = (): string => `${replica}.${origin}.${++sends}`;

  /** It is entered before the send departs: a process that is killed during it has spent it. */
  function entryOf({ id, wish: { app, resource, cause, query } }: Grant): LedgerEntry {
    return { id, origin, at: clock.now(), app, resource, cause, query, limits: limitsText(terms.windows) };
  }

  function complete({ id }: Grant, completion: LedgerCompletion): void {
    ledger.complete(id, completion);
    changed();
  }

  return {
    async take(wishes) {
      const id = nextId();
      let taken: Taken = { kind: "wait", forMs: ASK_AGAIN_MS };
      decideWith(() => {
        taken = takeNow(standing, terms, { id, wishes }, clock.monotonic());
        return taken.kind === "granted" ? entryOf(taken.grant) : undefined;
      });
      return taken;
    },
    async takeAnyway(wish) {
      const granted = { id: nextId(), wish };
      const take = (): LedgerEntry => {
        grant(standing, terms, wish, granted.id, clock.monotonic());
        return entryOf(granted);
      };
      if (!decideWith(take)) ledger.enter(take());
      return granted;
    },
    settle(granted, end) {
      const { id, wish } = granted;
      const { status, durationMs, arrivedAfterMs } = end;
      const sinceArrivalMs = durationMs - arrivedAfterMs;
      // The time of day first: a process that stands still in between counts longer here than the ledger shows.
      const arrivedAt = clock.now() - sinceArrivalMs;
      const now = clock.monotonic();
      settle(standing, terms, { id, ...wish }, { end, arrivedAt: now - sinceArrivalMs }, now);
      complete(granted, { status, durationMs, arrivedAt });
    },
    giveBack(granted) {
      giveBack(standing, { id: granted.id, app: granted.wish.app });
      complete(granted, { status: "unsent", durationMs: 0, arrivedAt: clock.now() });
    },
    expect: (candidate, queued) => expectation(current(), terms, candidate, queued, clock.monotonic()),
    attach: (line) => ({ changed } = line),
    overview: () => overviewOf(current(), terms, "alone", clock.monotonic()),
    shareOf: (app) => sharesOf(current(), terms, app, clock.monotonic()),
    close: async () => undefined,
  };
}

function takeNow(
  standing: Standing,
  terms: Terms,
  { id, wishes }: { readonly id: string; readonly wishes: readonly Wish[] },
  now: number,
): Taken {
  const decision = decide(standing, terms, { idOf: () => id, candidates: wishes }, now);
  if (decision.kind === "wait") return { kind: "wait", forMs: decision.at - now };
  const wish = wishes[decision.index];
  if (wish === undefined) throw new Error("a place was given to nobody");
  return { kind: "granted", grant: { id, wish } };
}

interface Knowledge {
  readonly standing: Standing;
  /** The same, with what others have written by now. */
  readonly current: () => Standing;
  /** See `Following.decide`; when `work` is called, the standing has the news. */
  readonly decideWith: (work: () => LedgerEntry | undefined) => boolean;
}

/** How things stand by the ledger: what was sent before this process, and what others send beside it. */
function createKnowledge({ origin, terms, ledger, clock, replica }: LocalAllowanceOptions): Knowledge {
  const standing = newStanding();
  const following = ledger.follow({
    origin,
    own: `${replica}.`,
    since: clock.now() - keptMs(terms.windows) - terms.leaseMs,
  });
  const moment = (): Moment => ({ now: clock.now(), monotonic: clock.monotonic() });
  /** When the ledger was read; what it tells next was written since then. */
  let last = moment();

  function learn(news: LedgerNews | undefined): void {
    if (news === undefined) return;
    const now = moment();
    if (news.isFirst) begin(standing, terms, news.entered, now);
    else keepUp(standing, terms, news, last, now);
    last = now;
  }

  function current(): Standing {
    learn(following.news());
    return standing;
  }

  // So that it is read when the process begins, not when somebody waits.
  current();
  return {
    standing,
    current,
    decideWith: (work) =>
      following.decide((news) => {
        learn(news);
        return work();
      }),
  };
}
