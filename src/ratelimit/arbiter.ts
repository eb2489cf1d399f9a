/**
 * Who may send next, and when: the rolling windows, the shares of the apps, the reserve, the circuits,
 * put together. Pure but for the state it is given; instants are whole milliseconds of one clock that
 * never goes back.
 *
 * It decides for a process that keeps its budget by itself or in a file, it predicts waits, and it says what the Lua
 * script that decides for all replicas (lua/take.lua) has to answer: both are held to one another by
 * test/property/budget-script.test.ts.
 *
 * The order among those who wait is by priority, and within one by start-time fair queueing (Goyal, Vin
 * and Cheng, SIGCOMM 1996): each send moves its app's tag on by 1/weight, and the app with the lowest tag
 * goes first; one that was idle begins where the others are. What an app leaves, others may use. But in
 * a rolling window what is taken at once comes back at once, a window later: an app that takes more than
 * its share while others are about takes what it borrows evenly, so that a place comes free all the time
 * and nobody has to wait out a burst of somebody else's; and it leaves the others what they are likely to
 * want of their shares, going by what they took before (`wantedBy`).
 */
import { PRIORITIES, type Priority, type SendEnd } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import { type Circuit, opened, passableAt, REFUSED_IN_A_ROW, SCOPE_OF, stateOf } from "./circuit.ts";
import {
  DAY_MS,
  firstIn,
  freeAt,
  giveBackPlace,
  keptMs,
  type Limit,
  noPlaces,
  type Places,
  settlePlace,
  spentIn,
  takePlace,
  tidyPlaces,
  type Window,
} from "./windows.ts";

/** An app that asked so long ago, or within two windows where that is longer, is still about. */
export const ABOUT_MS = 60_000;

/** What the settings say of an app. */
export interface AppTerms {
  readonly weight: number;
  /** Most sends in any 24 hours, whatever others leave. */
  readonly perDay: number | null;
}

export interface Terms {
  readonly windows: readonly Window[];
  /** Part of each window, 0 up to 1, that background work never touches. */
  readonly reserve: number;
  readonly apps: ReadonlyMap<string, AppTerms>;
  /** By then a send that was allowed has arrived, or never will. */
  readonly leaseMs: number;
  readonly maxCoolOffMs: number;
}

/** One who wants to send. */
export interface Candidate {
  readonly app: string;
  readonly priority: Priority;
  readonly resource: Resource;
}

interface AppState {
  /** Where it stands in the fair order. */
  tag: number;
  askedAt: number;
  borrowedAt: number;
  /** All its sends, and those of its own share. */
  readonly all: Places;
  readonly own: Places;
}

/** Mutated only by the functions below. */
export interface Standing {
  readonly places: Places;
  readonly apps: Map<string, AppState>;
  /** The tag of the app served last. */
  tag: number;
  readonly circuits: Map<"origin" | Resource, Circuit>;
  refusedInARow: number;
}

export function newStanding(): Standing {
  return { places: noPlaces(), apps: new Map(), tag: 0, circuits: new Map(), refusedInARow: 0 };
}

/** How many go before a candidate: of all apps, and of its own. */
export interface Ahead {
  readonly ahead: number;
  readonly ownAhead: number;
}

/** What keeps a candidate waiting. */
export type Hindrance = "budget" | "share" | "per-day" | "cool-off";

export type Decision =
  /** `index` of the candidate that may send now. */
  | { readonly kind: "granted"; readonly index: number }
  /** None may before `at`; then one may, if nobody else sends by then. */
  | { readonly kind: "wait"; readonly at: number };

/**
 * Lets one of the candidates send now, and enters its place, or says when to ask again.
 * @param limitOf what is left of a window's limit, where something is held back for others
 */
export function decide(
  standing: Standing,
  terms: Terms,
  { idOf, candidates }: { readonly idOf: (app: string) => string; readonly candidates: readonly Candidate[] },
  now: number,
  limitOf: (window: Window) => number = limitOfWindow,
): Decision {
  tidy(standing, terms, now);
  for (const { app } of candidates) heardOf(standing, app, { askedAt: now });
  let at = Number.POSITIVE_INFINITY;
  for (const index of inFairOrder(standing, candidates)) {
    const candidate = candidates[index];
    if (candidate === undefined) continue;
    const admission = admit(standing, terms, candidate, now, limitOf);
    if (admission.at <= now) {
      grant(standing, terms, candidate, idOf(candidate.app), now);
      return { kind: "granted", index };
    }
    at = Math.min(at, admission.at);
  }
  return { kind: "wait", at };
}

const limitOfWindow = ({ limit }: Window): number => limit;

/** Lets a candidate send whatever the limits say: where they have been looked at, or are only watched. */
export function grant(
  standing: Standing,
  terms: Terms,
  { app, resource }: Candidate,
  id: string,
  now: number,
): void {
  const until = now + terms.leaseMs;
  allot(standing, terms, { id, app, until, at: now }, now);
  for (const scope of ["origin", resource] as const) {
    const circuit = standing.circuits.get(scope);
    if (circuit === undefined) continue;
    circuit.probe = id;
    circuit.probeUntil = until;
  }
}

/** Enters a send that another process of this budget let go `at` an instant, whoever was ahead of it here. */
export function enterAnothers(
  standing: Standing,
  terms: Terms,
  send: Placed & { readonly until: number; readonly at: number },
  now: number,
): void {
  heardOf(standing, send.app, { askedAt: send.at });
  allot(standing, terms, send, now);
}

/** Enters a send whose app's turn it was: the app moves on in the fair order. */
function allot(
  standing: Standing,
  terms: Terms,
  { id, app, until, at }: Placed & { readonly until: number; readonly at: number },
  now: number,
): void {
  const state = appOf(standing, app);
  if (isOverShare(standing, terms, app, now)) state.borrowedAt = Math.max(state.borrowedAt, at);
  enter(standing, terms, { id, app, until }, now);
  const start = Math.max(standing.tag, state.tag);
  standing.tag = start;
  state.tag = start + 1 / weightOf(terms, app);
}

/** A send that has a place. */
interface Placed {
  readonly id: string;
  readonly app: string;
}

/** Enters a send that was decided on, here or elsewhere, and will have arrived by `until`. */
export function enter(
  standing: Standing,
  terms: Terms,
  { id, app, until }: Placed & { readonly until: number },
  now: number,
): void {
  enterAs(standing, { id, app, until, isOwn: !isOverShare(standing, terms, app, now) });
}

/** Enters a send that was decided on elsewhere. `isOwn`: as one of its app's own share. */
export function enterAs(
  standing: Standing,
  { id, app, until, isOwn }: Placed & { readonly until: number; readonly isOwn: boolean },
): void {
  const state = appOf(standing, app);
  if (isOwn) takePlace(state.own, id, until);
  takePlace(state.all, id, until);
  takePlace(standing.places, id, until);
}

/** When an app asked last, and when it last took more than its share; what was known and is later stands. */
export function heardOf(
  standing: Standing,
  app: string,
  {
    askedAt,
    borrowedAt = Number.NEGATIVE_INFINITY,
  }: { readonly askedAt: number; readonly borrowedAt?: number },
): void {
  const state = appOf(standing, app);
  state.askedAt = Math.max(state.askedAt, askedAt);
  state.borrowedAt = Math.max(state.borrowedAt, borrowedAt);
}

/** A send has arrived by `at`. One that is not on its way is known to have arrived already. */
export function arrive(standing: Standing, { id, app }: Placed, at: number): void {
  const state = appOf(standing, app);
  for (const places of [state.own, state.all, standing.places]) {
    if (places.onTheirWay.has(id)) settlePlace(places, id, at);
  }
}

/**
 * The send has ended.
 * @param arrivedAt by then it had arrived
 */
export function settle(
  standing: Standing,
  terms: Terms,
  send: Placed & { readonly resource: Resource },
  { end, arrivedAt }: { readonly end: SendEnd; readonly arrivedAt: number },
  now: number,
): void {
  arrive(standing, send, arrivedAt);
  turnCircuits(standing, terms, send, end, now);
}

/** The send never went: its place is free again. */
export function giveBack(standing: Standing, { id, app }: Placed): void {
  const state = appOf(standing, app);
  for (const places of [state.own, state.all, standing.places]) giveBackPlace(places, id);
  for (const circuit of standing.circuits.values()) {
    if (circuit.probe === id) circuit.probe = undefined;
  }
}

/** What was sent says something of the upstream's state: a probe about its circuit, and any that was told to slow down. */
function turnCircuits(
  standing: Standing,
  terms: Terms,
  { id, resource }: { readonly id: string; readonly resource: Resource },
  end: SendEnd,
  now: number,
): void {
  const { status, slowDown } = end;
  standing.refusedInARow = slowDown?.cause === "unreachable" ? standing.refusedInARow + 1 : 0;
  for (const scope of ["origin", resource] as const) {
    const circuit = standing.circuits.get(scope);
    if (circuit?.probe !== id) continue;
    const isAnswered = typeof status === "number" && slowDown === undefined;
    if (isAnswered) standing.circuits.delete(scope);
    else open(standing, terms, scope, slowDown ?? { cause: circuit.cause, forMs: undefined }, now);
  }
  if (slowDown === undefined) return;
  if (slowDown.cause === "unreachable" && standing.refusedInARow < REFUSED_IN_A_ROW) return;
  const scope = SCOPE_OF[slowDown.cause] === "origin" ? "origin" : resource;
  // What was sent before it opened says nothing new.
  const isOpen = stateOf(standing.circuits.get(scope), now) === "open";
  if (!isOpen || slowDown.forMs !== undefined) open(standing, terms, scope, slowDown, now);
}

function open(
  { circuits }: Standing,
  { maxCoolOffMs }: Terms,
  scope: "origin" | Resource,
  slowDown: NonNullable<SendEnd["slowDown"]>,
  now: number,
): void {
  circuits.set(scope, opened(circuits.get(scope), slowDown, now, maxCoolOffMs));
}

/** When a candidate may send behind those that go before it, and what it waits for. */
export function expect(
  standing: Standing,
  terms: Terms,
  candidate: Candidate,
  { ahead, ownAhead }: Ahead,
  now: number,
  limitOf: (window: Window) => number = limitOfWindow,
): { readonly at: number; readonly why: Hindrance } {
  tidy(standing, terms, now);
  return admit(standing, terms, candidate, now, limitOf, { ahead, ownAhead });
}

interface Admission {
  readonly at: number;
  readonly why: Hindrance;
}

function admit(
  standing: Standing,
  terms: Terms,
  { app, priority, resource }: Candidate,
  now: number,
  limitOf: (window: Window) => number,
  { ahead, ownAhead } = { ahead: 0, ownAhead: 0 },
): Admission {
  const state = appOf(standing, app);
  const limits = terms.windows.map((window) => ({
    windowMs: window.windowMs,
    limit: priority === "interactive" ? limitOf(window) : limitOf(window) - reserved(terms, window),
  }));
  const reasons: Admission[] = [{ at: freeAt(standing.places, limits, now, ahead), why: "budget" }];
  const perDay = terms.apps.get(app)?.perDay ?? null;
  if (perDay !== null) {
    const limit: Limit = { limit: perDay, windowMs: DAY_MS };
    reasons.push({ at: freeAt(state.all, [limit], now, ownAhead), why: "per-day" });
  }
  for (const scope of ["origin", resource] as const) {
    reasons.push({ at: passableAt(standing.circuits.get(scope), now), why: "cool-off" });
  }
  const latest = reasons.reduce((last, reason) => (reason.at > last.at ? reason : last));
  const at = pacedAt(standing, terms, app, { ahead, ownAhead }, { now, from: latest.at }, limitOf);
  return at > latest.at ? { at, why: "share" } : latest;
}

/** From when on an app may send in a window, by what holds at an instant. */
interface Pace {
  readonly from: (at: number) => number;
  /** What holds may be otherwise after so long. */
  readonly holdsMs: number;
}

/** In a window, this many instants are looked at, */
export const LOOKS = 16;
/** and in all so many; after that, what seems to hold is taken to. */
export const MOST_LOOKS = 48;

/**
 * The first instant, not before `from`, at which an app may send in all windows as far as its shares are
 * concerned, if nobody else sends and those who are about stay about.
 *
 * What holds now need not hold then: an app whose sends have left the window by then wants a place again,
 * and one that was expected to want more may not have. So one instant after the other is looked at, until
 * one is found that still holds when it comes.
 */
function pacedAt(
  standing: Standing,
  terms: Terms,
  app: string,
  before: Ahead,
  { now, from }: { readonly now: number; readonly from: number },
  limitOf: (window: Window) => number,
): number {
  const paces = terms.windows.flatMap(
    (window) => paceIn(standing, terms, { app, window, limit: limitOf(window) }, before, now) ?? [],
  );
  let at = from;
  for (let looks = 1; looks <= MOST_LOOKS; looks++) {
    const next = paces.reduce((latest, pace) => {
      const most = looks < MOST_LOOKS ? at + pace.holdsMs : Number.POSITIVE_INFINITY;
      return Math.max(latest, Math.min(pace.from(at), most));
    }, at);
    if (next === at) break;
    at = next;
  }
  return at;
}

/**
 * An app's pace in a window: at once within its share, or where nobody else is about; else evenly, so that
 * what it borrows of a window takes the whole window, and not the last places: those are for apps that are
 * about and have not had their share, as many as they are likely to want, so that they need not wait for one.
 * @param limit what is left of the window's limit, where something is held back for others
 * @returns nothing where it may send now
 */
function paceIn(
  standing: Standing,
  terms: Terms,
  { app, window, limit }: { readonly app: string; readonly window: Window; readonly limit: number },
  { ahead, ownAhead }: Ahead,
  now: number,
): Pace | undefined {
  const { windowMs } = window;
  const { own, borrowedAt } = appOf(standing, app);
  const share = shareOf(terms, window, app);
  const withinShareAt = freeAt(own, [{ limit: share, windowMs }], now, ownAhead);
  if (share >= window.limit || withinShareAt <= now) return undefined;
  const others = othersAbout(standing, app, Math.max(2 * windowMs, ABOUT_MS), now).map((other) => ({
    own: appOf(standing, other).own,
    share: shareOf(terms, window, other),
  }));
  if (others.length === 0) return undefined;
  const interval = Math.ceil(windowMs / (window.limit - share));
  const over = spentIn(own, windowMs, now) + ownAhead - share;
  const evenly = Math.max(now, borrowedAt + interval) + interval * Math.min(over, ownAhead);
  return {
    holdsMs: isForeseen(window) ? Math.ceil(windowMs / LOOKS) : Number.POSITIVE_INFINITY,
    from(at) {
      // Shares are 1 at the least, and may be more than there is together.
      const wanted = Math.min(window.limit - share, wantedByAll(others, window, now, at));
      const left = { limit: limit - wanted, windowMs };
      return Math.min(withinShareAt, Math.max(evenly, freeAt(standing.places, [left], now, ahead)));
    },
  };
}

/** Of another app: the sends of its share of a window, and how many it may have. */
interface Other {
  readonly own: Places;
  readonly share: number;
}

/** What is left for other apps: what each is likely to want, and one more, but of those no more than a tenth. */
function wantedByAll(others: readonly Other[], window: Window, now: number, at: number): number {
  let spare = Math.floor(window.limit / 10);
  let wanted = 0;
  for (const other of others) {
    const left = other.share - spentIn(other.own, window.windowMs, at);
    if (left <= 0) continue;
    const likely = isForeseen(window) ? Math.min(left, wantedBy(other, window, now, at)) : 0;
    const more = likely < left && spare > 0 ? 1 : 0;
    spare -= more;
    wanted += likely + more;
  }
  return wanted;
}

/** Sends are remembered for a day: of longer windows it is not known what was taken in the one before. */
function isForeseen({ windowMs }: Window): boolean {
  return 2 * windowMs <= DAY_MS;
}

/**
 * How many more places of a window an app is likely to want within its share at an instant, besides those it
 * has. One that had some in the window before: as many as it had at most. One that has just come: after its
 * second one, all that is left of its share but for the part that it has let pass since.
 */
function wantedBy({ own, share }: Other, { windowMs }: Window, now: number, at: number): number {
  const since = (ms: number): number => spentIn(own, ms, at);
  const used = since(windowMs);
  if (since(2 * windowMs) > used) {
    const before = Math.max(since(1.5 * windowMs) - since(0.5 * windowMs), since(2 * windowMs) - used);
    return Math.max(0, before - used);
  }
  const first = firstIn(own, windowMs, { now, at });
  if (first === undefined || used === 1) return 0;
  return share - Math.max(used, Math.floor((share * (at - first)) / windowMs));
}

/** Whether an app has used up its share of a window. */
export function isOverShare(standing: Standing, terms: Terms, app: string, now: number): boolean {
  const { own } = appOf(standing, app);
  return terms.windows.some((window) => {
    const share = shareOf(terms, window, app);
    return share < window.limit && spentIn(own, window.windowMs, now) >= share;
  });
}

/** Other apps that have asked lately. */
function othersAbout({ apps }: Standing, app: string, withinMs: number, now: number): string[] {
  return [...apps].flatMap(([other, { askedAt }]) =>
    other !== app && askedAt >= now - withinMs ? [other] : [],
  );
}

/** An app's part of a window, by weight among all apps that are known; at least 1. */
export function shareOf(terms: Terms, { limit }: Limit, app: string): number {
  let total = 0;
  for (const { weight } of terms.apps.values()) total += weight;
  return Math.max(1, Math.floor((limit * weightOf(terms, app)) / Math.max(total, weightOf(terms, app))));
}

/** @returns an app's weight; 1 where it is not known */
export function weightOf({ apps }: Pick<Terms, "apps">, app: string): number {
  return apps.get(app)?.weight ?? 1;
}

/** The part of a window that background work leaves alone. */
function reserved({ reserve }: Terms, { limit }: Limit): number {
  return Math.floor(limit * reserve);
}

/** Indexes of candidates, the one whose turn is first first. */
function inFairOrder(standing: Standing, candidates: readonly Candidate[]): number[] {
  const rank = (index: number): number => PRIORITIES.indexOf(candidates[index]?.priority ?? "prefetch");
  const tag = (index: number): number =>
    Math.max(standing.tag, appOf(standing, candidates[index]?.app ?? "").tag);
  return candidates.map((_, index) => index).toSorted((a, b) => rank(a) - rank(b) || tag(a) - tag(b));
}

function appOf({ apps }: Standing, app: string): AppState {
  let state = apps.get(app);
  if (state === undefined) {
    const never = Number.NEGATIVE_INFINITY;
    state = { tag: 0, askedAt: never, borrowedAt: never, all: noPlaces(), own: noPlaces() };
    apps.set(app, state);
  }
  return state;
}

/** Drops what no window can see any more. */
function tidy(standing: Standing, { windows }: Terms, now: number): void {
  const horizonMs = keptMs(windows);
  tidyPlaces(standing.places, horizonMs, now);
  for (const { all, own } of standing.apps.values()) {
    tidyPlaces(all, horizonMs, now);
    tidyPlaces(own, horizonMs, now);
  }
}
