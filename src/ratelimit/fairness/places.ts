/**
 * The places in the calendar. Calls that wait have one, and callers that were told to come back, here and at the other
 * replicas. A caller that comes back is known by its app and its question, at any replica.
 *
 * Not all callers come back, so the place of a promise counts as much as the part of promises that were taken lately.
 */
import { PRIORITIES, type Priority } from "../../telemetry/events.ts";
import { queryHash } from "../../usage/ledger-line.ts";
import type { Limiter, News, Told } from "../limiter.ts";
import { type AppCall, chargesOf, type UpstreamRequest } from "../throttled.ts";
import { ActiveApps } from "./active-apps.ts";
import type { Place } from "./calendar.ts";

/** The place of a call: the instant of its permit, and when that was decided. Monotonic milliseconds. */
export interface Placed {
  at: number;
  placedAt: number;
}

/** Whether the caller was told to wait for this place, or to come back for it. Other calls leave its permit free. */
export function isOwed({ at, placedAt }: Placed): boolean {
  return at > placedAt;
}

/** A call that waits. */
export interface WaitingCall extends Placed {
  readonly request: UpstreamRequest;
}

interface PlacesOptions {
  readonly limiter: Limiter;
  readonly clock: {
    readonly monotonic: () => number;
    readonly after: (delayMs: number, callback: () => void) => unknown;
  };
}

/** A place that is kept for a caller that was told to come back. */
interface Promised extends AppCall, Readonly<Placed> {
  readonly name: string;
}

/** A promise that was not taken is forgotten this long after its instant. */
const GRACE_MS = 2_000;
/** The weight of the latest promise in the part of promises that are taken. */
const LEARNED = 0.05;
/** If a smaller part is taken, promises do not count. */
const FEW = 0.1;
const MOST_PROMISES = 500;
/** How often the other replicas are told. */
const TELL_MS = 250;
/** The other replicas know a place after this time. */
const KNOWN_MS = 500;
/** Older news is ignored, because Redis is away. */
const OUTDATED_MS = 1_000;
const NOTHING: Told = { at: 0, news: [] };
/** The other replicas are told at most this many waiting calls, and as many promises. */
const MOST_NEWS = 100;
/** A single call looks like this many calls per minute. It is subtracted, because one call says nothing about a rate. */
const ONE_CALL = 1.6;

export class Places {
  readonly #limiter: Limiter;
  readonly #clock: PlacesOptions["clock"];
  readonly #waiting: ReadonlySet<WaitingCall>;
  readonly #replicas: () => number;
  readonly #active = new ActiveApps();
  /** Ascending instants. */
  #promised: Promised[] = [];
  /** Promises of other replicas that were taken here, and when. The replica that made them may not know yet. */
  readonly #taken = new Map<string, number>();
  #takenPart = 1;
  #told = NOTHING;
  #elsewhere = heard(NOTHING);
  #isTelling = false;
  /** The latest news was not empty, so the other replicas must be told when nothing waits any more. */
  #hasTold = false;

  /** @param waiting the calls that wait here */
  constructor({ limiter, clock }: PlacesOptions, waiting: ReadonlySet<WaitingCall>, replicas: () => number) {
    this.#limiter = limiter;
    this.#clock = clock;
    this.#waiting = waiting;
    this.#replicas = replicas;
  }

  /** Call it when a caller asks. @returns the place that the caller was promised, unless it has taken it already */
  ask(request: UpstreamRequest): Placed | undefined {
    const now = this.#clock.monotonic();
    for (const { app } of chargesOf(request)) this.#active.see(app, now);
    this.#forget();
    const name = nameOf(request);
    const own = this.#remove(name);
    const elsewhere = this.#taken.has(name) ? undefined : this.#elsewhere.promised.get(name);
    if (own === undefined && elsewhere !== undefined) this.#taken.set(name, now);
    const promise = own ?? elsewhere;
    return promise && { at: promise.at, placedAt: promise.placedAt };
  }

  /** A caller is told to come back at an instant. The promises that are due first are kept. */
  promise(request: UpstreamRequest, at: number): void {
    const index = this.#promised.findLastIndex((promise) => promise.at <= at) + 1;
    const placedAt = this.#clock.monotonic();
    this.#promised.splice(index, 0, { name: nameOf(request), ...chargesOf(request)[0], at, placedAt });
    if (this.#promised.length > MOST_PROMISES) this.#promised.pop();
    this.tell();
  }

  /**
   * The places that a call of this priority must leave to others, the earliest first. None is before now.
   * @param except a call that may get another place
   */
  before(priority: Priority, except?: UpstreamRequest): Place[] {
    this.#forget();
    const now = this.#clock.monotonic();
    const newSince = now - KNOWN_MS;
    // Replicas have about the same number of new places, so a new place here stands for those of the other replicas, too.
    const ofNew = this.busyReplicas();
    const places: Place[] = [...this.#elsewhere.waiting];
    for (const { request, at, placedAt } of this.#waiting)
      if (request !== except)
        places.push({ ...chargesOf(request)[0], at, weight: placedAt > newSince ? ofNew : 1 });
    if (this.#takenPart >= FEW) {
      for (const promise of this.#elsewhere.promised.values())
        if (!this.#taken.has(promise.name)) places.push({ ...promise, weight: this.#takenPart });
      for (const [index, promise] of this.#promised.entries()) {
        const isUntold = promise.placedAt > newSince || index >= MOST_NEWS;
        places.push({ ...promise, weight: this.#takenPart * (isUntold ? ofNew : 1) });
      }
    }
    const isUrgent = (place: Place): boolean =>
      PRIORITIES.indexOf(place.priority) <= PRIORITIES.indexOf(priority);
    // A place in the past has not been used yet.
    const next = places.filter(isUrgent).map((place) => ({ ...place, at: Math.max(now, place.at) }));
    return next.toSorted((a, b) => a.at - b.at);
  }

  /** How many replicas are assumed to have calls that wait: all, or only this one if the others have told nothing. */
  busyReplicas(): number {
    return this.#elsewhere.isAnyoneBusy ? this.#replicas() : 1;
  }

  /** How many calls each active app asks for in a minute, at all replicas. */
  asked(): ReadonlyMap<string, number> {
    const asked = this.#active.perMinute(this.#clock.monotonic());
    for (const [app, perMinute] of this.#elsewhere.asked) asked.set(app, (asked.get(app) ?? 0) + perMinute);
    for (const [app, perMinute] of asked) asked.set(app, Math.max(0, perMinute - ONE_CALL));
    return asked;
  }

  /** Takes over what the other replicas told. The same news is read only once. */
  hear(news: Told): void {
    const told = news.at < this.#clock.monotonic() - OUTDATED_MS ? NOTHING : news;
    if (told === this.#told) return;
    this.#told = told;
    this.#elsewhere = heard(told);
    for (const name of this.#elsewhere.taken) this.#remove(name);
  }

  /** Tells the other replicas what waits and what was promised here. Repeats that at intervals while there is anything. */
  tell(): void {
    if (this.#isTelling || this.#replicas() === 1) return;
    this.#forget();
    const now = this.#clock.monotonic();
    const first = [...this.#waiting].toSorted((a, b) => a.at - b.at).slice(0, MOST_NEWS);
    const news = first.map(({ request, at }): News => {
      const { app, priority } = chargesOf(request)[0];
      return [priority, app, at - now];
    });
    for (const { name, app, priority, at } of this.#promised.slice(0, MOST_NEWS))
      news.push([`${priority} ${name}`, app, at - now]);
    for (const name of this.#taken.keys()) news.push([`taken ${name}`, "", 0]);
    if (news.length > 0)
      for (const [app, perMinute] of this.#active.perMinute(now)) news.push(["asked", app, perMinute]);
    if (news.length === 0 && !this.#hasTold) return;
    this.#limiter.announce(news);
    this.#hasTold = news.length > 0;
    this.#isTelling = true;
    this.#clock.after(TELL_MS, () => {
      this.#isTelling = false;
      this.tell();
    });
  }

  #remove(name: string): Promised | undefined {
    const index = this.#promised.findIndex((promise) => promise.name === name);
    if (index < 0) return undefined;
    this.#learn(1);
    return this.#promised.splice(index, 1)[0];
  }

  #learn(wasTaken: 0 | 1): void {
    this.#takenPart += (wasTaken - this.#takenPart) * LEARNED;
  }

  #forget(): void {
    const before = this.#clock.monotonic() - GRACE_MS;
    while ((this.#promised[0]?.at ?? before) < before && this.#promised.shift() !== undefined) this.#learn(0);
    for (const [name, at] of this.#taken) if (at < before) this.#taken.delete(name);
  }
}

/** Reads what other replicas told. */
function heard({ at: toldAt, news }: Told) {
  const waiting: Place[] = [];
  const promised = new Map<string, Promised>();
  const taken = new Set<string>();
  const asked: [app: string, perMinute: number][] = [];
  for (const [what, app, value] of news) {
    const [kind, name] = what.split(" ");
    const priority = PRIORITIES.find((one) => one === kind);
    const at = toldAt + value;
    if (kind === "asked") asked.push([app, value]);
    else if (priority === undefined) taken.add(name ?? "");
    else if (name !== undefined) promised.set(name, { name, app, priority, at, placedAt: 0 });
    else if (value > 0) waiting.push({ app, priority, at, weight: 1 });
  }
  for (const name of taken) promised.delete(name);
  return { waiting, promised, taken, asked, isAnyoneBusy: news.length > 0 };
}

/** A caller that comes back is known by its app and its question. */
function nameOf(request: UpstreamRequest): string {
  return queryHash(`${chargesOf(request)[0].app} ${request.resource} ${request.query}`);
}
