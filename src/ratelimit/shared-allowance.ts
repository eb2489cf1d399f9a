/**
 * A replica's side of the budget that all replicas share.
 *
 * | phase   | who decides                                     | becomes                                  |
 * |---------|-------------------------------------------------|------------------------------------------|
 * | joining | nobody: those who want to send wait             | shared; cut off, where joining fails     |
 * | shared  | the shared budget                               | cut off, when it cannot be reached; joining, when it was restarted |
 * | cut off | this replica, within its safe part (cut-off.ts) | joining, as soon as it can be reached    |
 *
 * To join is to bring what one knows: what this replica sent while it was cut off, and, because the shared
 * budget may have lost its memory, every send that still counts.
 */
import type { OriginName, SendEnd } from "../types.ts";
import { type Clock, pause } from "../process/clock.ts";
import type { Allowance, Expectation, Grant, Line, Taken, Wish } from "./allowance.ts";
import {
  type Candidate,
  giveBack,
  grant as grantIn,
  settle as settleIn,
  type Standing,
  type Terms,
} from "./arbiter.ts";
import { createCutOff, type CutOff } from "./cut-off.ts";
import { createEnds, endReport, type Ends, unsentReport } from "./ends.ts";
import { limitsText } from "../usage/limits-text.ts";
import { createLateSends, type LateSends } from "./late-sends.ts";
import { expectation, overviewOf, sharesOf } from "./overview.ts";
import type { Others } from "./others.ts";
import type { Queued } from "./queued.ts";
import type { News, SharedBudget } from "./shared-budget.ts";
import { longestMs } from "./terms.ts";
import { againAfter, oneAtATime } from "./single-flight.ts";
import { createView, type View } from "./view.ts";

export interface SharedAllowanceOptions {
  readonly origin: OriginName;
  readonly terms: Terms;
  readonly shared: SharedBudget;
  readonly clock: Clock;
  /** A name for this replica, unlike any other's, past ones included. */
  readonly replica: string;
  /** Most replicas at once, as far as the settings know. */
  readonly replicas: number;
  /** The part of each window for a replica that is cut off. */
  readonly degradedShare: number;
  /** For how long a replica that is cut off goes on. */
  readonly degradedForMs: number;
  readonly report: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

export interface SharedAllowance extends Allowance {
  /** Told of what is told to all replicas. */
  readonly hear: (news: News) => void;
  /** News may have been missed, or the shared budget may be there again. */
  readonly check: () => void;
}

/** How often a replica says that it is there. */
const BEAT_MS = 250;
/** One that is cut off tries to join at every so many beats. */
const BEATS_TO_REJOIN = 4;
/**
 * One that has just begun knows nothing of what was spent before it, and goes on by itself only when the
 * shared budget could not be reached for so long.
 */
const PATIENCE_AT_START_MS = 3_000;
/** So long after it was last heard, others stop waiting for a replica to catch up. */
export const SILENT_MS = 1_000;
/**
 * For how long others reckon with a replica that they do not hear of: until it notices that it is cut off,
 * and as long as it goes on then, and until what it sent last has arrived. That counts for a window more.
 */
export function absentForMs({ leaseMs }: Pick<Terms, "leaseMs">, degradedForMs: number): number {
  return SILENT_MS + degradedForMs + leaseMs;
}
/** Others that have to catch up are waited for so long at first, then for twice as long. */
const FIRST_CATCH_UP_MS = 4;
const LONGEST_CATCH_UP_MS = 250;

type Phase = "joining" | "shared" | "cut-off";

/** One replica's side. Mutated by the functions below. */
interface Side {
  readonly options: SharedAllowanceOptions;
  readonly view: View;
  readonly late: LateSends;
  readonly ends: Ends;
  phase: Phase;
  cutOff: CutOff | undefined;
  /** When it last reached the shared budget, or began, by the monotonic clock. */
  heardAt: number;
  /** Whether the shared budget was ever reached. */
  wasReached: boolean;
  catchUpMs: number;
  sends: number;
  /** It asks for a place, and has not been answered. */
  isAsking: boolean;
  isClosed: boolean;
  line: Line;
  /** Each at most once at a time. */
  readonly join: () => Promise<void>;
  readonly look: () => Promise<void>;
  readonly flush: () => Promise<void>;
}

export function createSharedAllowance(options: SharedAllowanceOptions): SharedAllowance {
  const side = createSide(options);
  const { clock, terms } = options;
  const stopBeating = keepBeating(side);
  void side.join();

  function end(granted: Grant, how: SendEnd | undefined): void {
    noteEnd(side, granted, how);
    void side.flush();
    side.line.changed();
  }

  return {
    take: (wishes) => take(side, wishes, false),
    async takeAnyway(wish) {
      for (;;) {
        const taken = await take(side, [wish], true);
        if (taken.kind === "granted") return taken.grant;
        await pause(clock, taken.forMs);
      }
    },
    settle: end,
    giveBack: (granted) => end(granted, undefined),
    expect: (candidate, queued) => expectIn(side, candidate, queued),
    attach(line) {
      side.line = line;
    },
    overview() {
      const { standing, limitOf } = inForce(side);
      return overviewOf(standing, terms, side.phase, clock.monotonic(), limitOf);
    },
    shareOf: (app) => sharesOf(inForce(side).standing, terms, app, clock.monotonic()),
    hear(news) {
      if (side.phase !== "shared") return;
      if (side.view.hear(news)) void side.look();
      if (news.kind !== "sent") side.line.changed();
    },
    check: () => void (side.phase === "shared" ? side.look() : side.join()),
    async close() {
      stopBeating();
      // What it sent while it was cut off nobody else can tell.
      if (side.phase === "cut-off") await side.join();
      side.isClosed = true;
      await side.flush();
      if (side.phase === "shared") await options.shared.leave(side.view.asker()).catch(() => undefined);
    },
  };
}

function createSide(options: SharedAllowanceOptions): Side {
  const { origin, report } = options;
  const side: Side = {
    options,
    view: createView({
      ...options,
      monotonic: options.clock.monotonic,
      onTooMany: (replicas) =>
        report("There are more replicas than the settings say (REPLICAS)", { origin, replicas }),
      // Told beside a question for a place, one who gets it would seem to wait still when that has been answered.
      queued: () => (side.isAsking ? undefined : side.line.queued()),
      onRelief: () => side.line.changed(),
    }),
    late: createLateSends(),
    ends: createEnds(),
    phase: "joining",
    cutOff: undefined,
    heardAt: options.clock.monotonic(),
    wasReached: false,
    catchUpMs: FIRST_CATCH_UP_MS,
    sends: 0,
    isAsking: false,
    isClosed: false,
    line: { queued: () => [], changed: () => undefined },
    join: oneAtATime(() => joinOnce(side)),
    look: againAfter(() => lookOnce(side)),
    flush: againAfter(() => flushOnce(side)),
  };
  return side;
}

// The phases.

function enterPhase(side: Side, phase: Phase): void {
  if (side.phase === phase) return;
  side.phase = phase;
  side.line.changed();
}

/** The shared budget could not be reached. While it is being joined, that is for the joining to find out. */
function becomeCutOff(side: Side, error: unknown): void {
  if (side.phase !== "joining") goOnAlone(side, error);
}

function goOnAlone(side: Side, error: unknown): void {
  if (side.isClosed) return;
  const { view, options } = side;
  const now = options.clock.monotonic();
  // It is tried again at the next beat.
  if (!side.wasReached && now < side.heardAt + PATIENCE_AT_START_MS) return;
  if (side.cutOff === undefined) {
    const reason = error instanceof Error ? error.message : String(error);
    options.report("The shared budget cannot be reached; going on with a safe part of it", {
      origin: options.origin,
      reason,
      share: view.others.share(),
    });
    // Others may enter sends that this replica does not hear of until it counts as silent.
    const at = side.wasReached ? now + SILENT_MS : Number.NEGATIVE_INFINITY;
    const { held, share, heldShare, slack } = view.others;
    const last = { at, held: held(), share: share(), heldShare: heldShare(), slack: slack() };
    side.cutOff = createCutOff(view.mirror().standing, options.terms, last, options.clock.monotonic);
  }
  enterPhase(side, "cut-off");
}

async function joinOnce(side: Side): Promise<void> {
  const { view, late, options } = side;
  if (side.isClosed) return;
  const wasCutOff = side.phase === "cut-off";
  const lastHeardAt = side.heardAt;
  // From here on nothing is sent that would not be told.
  enterPhase(side, "joining");
  try {
    await view.join(late.known(options.clock.monotonic()));
    side.wasReached = true;
    if (!(await catchUp(side))) throw new Error("restarted while it was being joined");
    // Only now: what was brought may have been lost again.
    side.cutOff = undefined;
    late.clear();
    if (wasCutOff) {
      const cutOffMs = options.clock.monotonic() - lastHeardAt;
      options.report("The shared budget is there again", { origin: options.origin, cutOffMs });
    }
    enterPhase(side, "shared");
    void side.flush();
  } catch (error) {
    goOnAlone(side, error);
  }
}

async function lookOnce(side: Side): Promise<void> {
  if (side.phase !== "shared" || side.isClosed) return;
  try {
    if (!(await catchUp(side))) void side.join();
  } catch (error) {
    becomeCutOff(side, error);
  }
}

/** @returns false where it has to join first */
async function catchUp(side: Side): Promise<boolean> {
  const askedAt = side.options.clock.monotonic();
  // What it goes on with alone is reckoned from what it was known to know by then.
  const { phase } = side;
  const isJoined = await side.view.catchUp(() => side.phase === phase);
  if (isJoined) side.heardAt = askedAt;
  return isJoined;
}

function keepBeating(side: Side): () => void {
  const { clock } = side.options;
  let beats = 0;
  let cancel = clock.after(BEAT_MS, beat);
  function beat(): void {
    cancel = clock.after(BEAT_MS, beat);
    if (side.phase === "shared") void side.look();
    else if (side.phase === "joining" || ++beats % BEATS_TO_REJOIN === 0) void side.join();
  }
  return () => cancel();
}

// Places.

async function take(side: Side, wishes: readonly Wish[], anyway: boolean): Promise<Taken> {
  if (side.phase === "shared") {
    try {
      const taken = await takeTogether(side, wishes, anyway);
      if (taken !== "lost" && taken !== "news") return taken;
      void (taken === "lost" ? side.join() : side.look());
      return { kind: "wait", forMs: side.catchUpMs };
    } catch (error) {
      becomeCutOff(side, error);
    }
  }
  if (side.phase === "cut-off" && side.cutOff) return takeAlone(side, side.cutOff, wishes, anyway);
  // Joining: it tells when it has, or has failed to.
  return { kind: "wait", forMs: BEAT_MS };
}

function nextId({ options: { replica, origin }, sends }: Side): string {
  return `${replica}.${origin}.${sends}`;
}

async function takeTogether(
  side: Side,
  wishes: readonly Wish[],
  anyway: boolean,
): Promise<Taken | "lost" | "news"> {
  const { view, options } = side;
  side.sends++;
  const id = nextId(side);
  const request = {
    ...view.asker(),
    id,
    wishes,
    anyway,
    share: view.others.heldShare(),
    catchUpMs: side.catchUpMs,
  };
  const askedAt = options.clock.monotonic();
  const askedOf = options.terms.windows;
  view.learnApps(wishes.map(({ app }) => ({ app, askedMs: 0 })));
  side.isAsking = true;
  const answer = options.shared.take(request).finally(() => (side.isAsking = false));
  const reply = await answer.catch((error: unknown) => {
    // It may have been given all the same: then it is given back.
    const now = options.clock.monotonic();
    for (const { app, resource } of wishes) side.ends.add(unsentReport(`${id}@${app}`, app, resource), now);
    throw error;
  });
  if (reply.kind === "lost") return "lost";
  side.heardAt = askedAt;
  view.others.learn(reply, askedOf);
  if (reply.kind === "wait") view.learnApps(reply.apps);
  if (reply.kind === "wait" && reply.why === "news") {
    side.catchUpMs = Math.min(side.catchUpMs * 2, LONGEST_CATCH_UP_MS);
    return "news";
  }
  side.catchUpMs = FIRST_CATCH_UP_MS;
  if (reply.kind === "wait") return { kind: "wait", forMs: reply.forMs };
  const wish = wishes[reply.index];
  if (wish === undefined) throw new Error("the shared budget gave a place to nobody");
  view.granted(reply);
  return { kind: "granted", grant: { id: reply.id, wish } };
}

function takeAlone(side: Side, cutOff: CutOff, wishes: readonly Wish[], anyway: boolean): Taken {
  const { terms, clock, degradedForMs } = side.options;
  const now = clock.monotonic();
  if (now > side.heardAt + degradedForMs) return { kind: "wait", forMs: BEAT_MS * BEATS_TO_REJOIN };
  side.sends++;
  const bare = nextId(side);
  const idOf = (app: string): string => `${bare}@${app}`;
  const decision = anyway ? { kind: "granted" as const, index: 0 } : cutOff.decide(idOf, wishes);
  if (decision.kind === "wait") return { kind: "wait", forMs: decision.at - now };
  const wish = wishes[decision.index];
  if (wish === undefined) throw new Error("a place was given to nobody");
  const id = idOf(wish.app);
  if (anyway) grantIn(cutOff.standing, terms, wish, id, now);
  const limits = limitsText(terms.windows);
  side.late.sent({ id, wish, limits, sentAt: now, until: now + terms.leaseMs });
  return { kind: "granted", grant: { id, wish } };
}

/** @param how absent where nothing was sent */
function noteEnd(side: Side, granted: Grant, how: SendEnd | undefined): void {
  const { id, wish } = granted;
  const now = side.options.clock.monotonic();
  const arrivedAt = how === undefined ? now : now - (how.durationMs - how.arrivedAfterMs);
  const isLate = side.late.ended(id, how, arrivedAt);
  if (!isLate) side.view.mirror().settled(id, now - arrivedAt, how === undefined, now);
  const alone = side.cutOff?.standing;
  if (alone?.places.onTheirWay.has(id)) {
    if (how === undefined) giveBack(alone, { id, app: wish.app });
    else settleIn(alone, side.options.terms, { id, ...wish }, { end: how, arrivedAt }, now);
  }
  // What was sent while cut off is told when it joins; while it is joining that may be too late.
  if (isLate && side.phase === "cut-off") return;
  const report = how === undefined ? unsentReport(id, wish.app, wish.resource) : endReport(granted, how);
  side.ends.add(report, arrivedAt);
}

async function flushOnce(side: Side): Promise<void> {
  const { ends, view, options } = side;
  while (side.phase === "shared" && ends.size > 0) {
    const batch = ends.next(options.clock.monotonic());
    try {
      const reply = await options.shared.settle(view.asker(), batch.reports);
      if (reply.kind === "lost") return void side.join();
      batch.done();
      view.mirror().circuits(reply.circuits, options.clock.monotonic());
      side.line.changed();
    } catch (error) {
      return becomeCutOff(side, error);
    }
  }
}

interface InForce {
  readonly standing: Standing;
  readonly terms: Terms;
  readonly limitOf: Others["limitOf"];
  /** Who waits elsewhere for the same places. */
  readonly queued: readonly Queued[];
}

/** How long a candidate would wait that came after those who wait here, and at other replicas. */
function expectIn(side: Side, candidate: Candidate, queuedHere: readonly Queued[]): Expectation {
  const { standing, terms, limitOf, queued } = inForce(side);
  const isCutOff = side.phase === "cut-off";
  const now = side.options.clock.monotonic();
  // What is held back for others for the moment may be free in the next: nobody is refused for that.
  const limits = isCutOff ? limitOf : undefined;
  const expected = expectation(standing, terms, candidate, [...queuedHere, ...queued], now, limits);
  // What may be spent alone grows as what was sent before leaves the windows; in the longest of them all of it does.
  const isLasting = Number.isFinite(expected.forMs) && !isCutOff;
  return isLasting ? expected : { ...expected, forMs: Math.min(expected.forMs, longestMs(terms)) };
}

/** What decides now, as far as it is known here. */
function inForce({ phase, cutOff, view, options }: Side): InForce {
  return phase === "cut-off" && cutOff
    ? { standing: cutOff.standing, terms: cutOff.terms(), limitOf: cutOff.limitOf, queued: [] }
    : {
        standing: view.mirror().standing,
        terms: options.terms,
        limitOf: view.others.limitOf,
        queued: view.others.queued(),
      };
}
