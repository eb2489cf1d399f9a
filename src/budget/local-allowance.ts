/**
 * The budget of a process that keeps it by itself: the arbiter decides, the ledger remembers what was
 * sent over a restart.
 */
import type { OriginName } from "../exchange.ts";
import type { Clock } from "../platform/clock.ts";
import type { Allowance, Grant, Wish } from "./allowance.ts";
import {
  arrive,
  decide,
  enter,
  giveBack,
  grant,
  newStanding,
  settle,
  type Standing,
  type Terms,
} from "./arbiter.ts";
import type { LedgerCompletion, OwnLedger } from "./ledger.ts";
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

export function createLocalAllowance(options: LocalAllowanceOptions): Allowance {
  const { origin, terms, ledger, clock, replica } = options;
  const standing = rememberedStanding(options);
  let sends = 0;
  let changed = (): void => undefined;
  const nextId = (): string => `${replica}.${origin}.${++sends}`;

  /** Before the send departs: a process that is killed during it has spent it. */
  function note(id: string, { app, resource, cause, query }: Wish): void {
    ledger.enter({ id, origin, at: clock.now(), app, resource, cause, query });
  }

  function complete(
    { id }: Grant,
    status: LedgerCompletion["status"],
    durationMs = 0,
    sinceArrivalMs = 0,
  ): void {
    ledger.complete(id, { status, durationMs, arrivedAt: clock.now() - sinceArrivalMs });
  }

  return {
    async take(wishes) {
      const id = nextId();
      const decision = decide(standing, terms, { idOf: () => id, candidates: wishes }, clock.steady());
      if (decision.kind === "wait") return { kind: "wait", forMs: decision.at - clock.steady() };
      const wish = wishes[decision.index];
      if (wish === undefined) throw new Error("a place was given to nobody");
      note(id, wish);
      return { kind: "granted", grant: { id, wish } };
    },
    async takeAnyway(wish) {
      const id = nextId();
      grant(standing, terms, wish, id, clock.steady());
      note(id, wish);
      return { id, wish };
    },
    settle(granted, end) {
      const { id, wish } = granted;
      const now = clock.steady();
      const sinceArrivalMs = end.durationMs - end.arrivedAfterMs;
      settle(standing, terms, { id, ...wish }, { end, arrivedAt: now - sinceArrivalMs }, now);
      complete(granted, end.status, end.durationMs, sinceArrivalMs);
      changed();
    },
    giveBack(granted) {
      giveBack(standing, { id: granted.id, app: granted.wish.app });
      complete(granted, "unsent");
      changed();
    },
    expect: (candidate, queued) => expectation(standing, terms, candidate, queued, clock.steady()),
    attach: (line) => ({ changed } = line),
    overview: () => overviewOf(standing, terms, "alone", clock.steady()),
    shareOf: (app) => sharesOf(standing, terms, app, clock.steady()),
    close: async () => undefined,
  };
}

/** What the ledger knows of the windows. A send that was never completed may have arrived as late as it could. */
function rememberedStanding({ origin, terms, ledger, clock }: LocalAllowanceOptions): Standing {
  const standing = newStanding();
  const [now, steadyNow] = [clock.now(), clock.steady()];
  const horizonMs = keptMs(terms.windows) + terms.leaseMs;
  for (const { id, app, at, completion } of ledger.recent(origin, now - horizonMs)) {
    if (completion?.status === "unsent") continue;
    // A clock that was ahead when it was entered must not hold everything back until then.
    const arrivedAt = Math.min(completion?.arrivedAt ?? at + terms.leaseMs, now);
    const until = steadyNow - (now - arrivedAt);
    enter(standing, terms, { id, app, until }, steadyNow);
    arrive(standing, { id, app }, until);
  }
  return standing;
}
