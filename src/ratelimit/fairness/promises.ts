/**
 * What the fair order knows besides the calls that wait here: callers that were told to come back, how much each app asks, and
 * what the other replicas told. A caller that comes back is known by its app and its question, at any replica.
 *
 * Not all callers come back, so a promise counts as much as the part of promises that were taken lately.
 */
import { PRIORITIES } from "../../telemetry/events.ts";
import { queryHash } from "../../usage/ledger-line.ts";
import type { News, Told } from "../limiter.ts";
import type { PartOptions } from "../budget-options.ts";
import { type AppCall, chargesOf, type UpstreamRequest } from "../call-facts.ts";
import type { Queued } from "./forecast.ts";

/** A call that waits. */
export interface WaitingCall {
  readonly request: UpstreamRequest;
  /** When it is likely to get its permit, as its caller was promised. Monotonic milliseconds. */
  readonly dueAt: number;
  /** Monotonic milliseconds. */
  readonly enteredAt: number;
}

/** A promise to a caller. */
interface Promised extends AppCall {
  readonly from: number;
  readonly madeAt: number;
}

interface PromisesOptions extends Pick<PartOptions, "limiter" | "clock" | "config"> {
  /** The calls that wait here. */
  readonly waiting: ReadonlySet<WaitingCall>;
}

/** A promise that was not taken is forgotten this long after its instant. */
const GRACE_MS = 3_000;
/** Clocks and news are not exact, so a caller may come back so much before its time. */
const EARLY_MS = 1_000;
/** The weight of the latest promise in the part of promises that are taken. */
const LEARNED = 0.05;
/** If a smaller part is taken, promises do not count. */
const FEW = 0.1;
const MOST_PROMISES = 500;
/** How often the other replicas are told. */
const TELL_MS = 250;
/** The other replicas know a call after this time. */
const KNOWN_MS = 350;
/** Older news is ignored, because Redis is away. */
const OUTDATED_MS = 1_000;
const NOTHING: Told = { at: 0, news: [] };
/** The other replicas are told at most this many waiting calls, and as many promises. */
const MOST_NEWS = 100;
/** Apps that asked within this time are active. It is also the time constant with which older calls count less. */
const ACTIVE_MS = 60_000;

export class Promises {
  readonly #options: PromisesOptions;
  /** By the name of the call. */
  readonly #promised = new Map<string, Promised>();
  /** The instants of other replicas' promises that were taken here. The replica that made them may not know yet. */
  readonly #taken = new Map<string, number>();
  #takenPart = 1;
  readonly #asked = new Map<string, { readonly at: number; readonly calls: number }>();
  #told = NOTHING;
  #elsewhere = heard(NOTHING);
  #isTelling = false;
  /** The latest news was not empty, so the other replicas must be told when nothing waits any more. */
  #hasTold = false;

  constructor(options: PromisesOptions) {
    this.#options = options;
  }

  /** Call it when a caller asks. @returns the instant for which the caller was told to come back, unless it is much too early */
  take(request: UpstreamRequest): number | undefined {
    const now = this.#now();
    for (const { app } of chargesOf(request))
      this.#asked.set(app, { at: now, calls: this.#askedBy(app, now) + 1 });
    this.#forget();
    const name = nameOf(request);
    const promised = this.#promised.has(name) ? this.#promised : this.#elsewhere.promised;
    const from = promised.get(name)?.from;
    if (from === undefined) return undefined;
    promised.delete(name);
    if (promised === this.#promised) this.#learn(1);
    else this.#taken.set(name, from);
    return from <= now + EARLY_MS ? from : undefined;
  }

  /** A caller is told to come back at an instant. */
  promise(request: UpstreamRequest, from: number): void {
    if (this.#promised.size >= MOST_PROMISES) return;
    this.#promised.set(nameOf(request), { ...chargesOf(request)[0], from, madeAt: this.#now() });
    this.tell();
  }

  /** The promises, and the calls that wait at other replicas. */
  queued(): Queued[] {
    this.#forget();
    const queued = [...this.#elsewhere.waiting];
    if (this.#takenPart < FEW) return queued;
    for (const { madeAt, ...one } of [...this.#promised.values(), ...this.#elsewhere.promised.values()])
      queued.push({ ...one, dueAt: one.from, weight: this.#takenPart * this.weightOf(madeAt) });
    return queued;
  }

  /** The calls that wait at other replicas and should have got their permits before an instant. */
  overdue(before: number): Queued[] {
    return this.#elsewhere.waiting.filter(({ dueAt }) => dueAt < before);
  }

  /**
   * How many calls a call of this replica counts as. The others are told about new calls, and tell theirs, only after a moment. If
   * any of them is busy, each is assumed to have as many new calls as this one.
   */
  weightOf(madeAt: number): number {
    const isNew = madeAt > this.#now() - KNOWN_MS;
    return isNew && this.#elsewhere.isAnyoneBusy ? this.#options.config().replicas : 1;
  }

  /** How many calls each active app has asked for in the last minute. Older ones count less. */
  asked(): ReadonlyMap<string, number> {
    const now = this.#now();
    for (const [app, { at }] of this.#asked) if (at < now - ACTIVE_MS) this.#asked.delete(app);
    const asked = new Map([...this.#asked.keys()].map((app) => [app, this.#askedBy(app, now)]));
    for (const [app, calls] of this.#elsewhere.asked) asked.set(app, (asked.get(app) ?? 0) + calls);
    return asked;
  }

  #askedBy(app: string, now: number): number {
    const { at, calls } = this.#asked.get(app) ?? { at: now, calls: 0 };
    return calls * Math.exp((at - now) / ACTIVE_MS);
  }

  /** Takes over what the other replicas told. The same news is read only once. */
  hear(news: Told): void {
    const told = news.at < this.#now() - OUTDATED_MS ? NOTHING : news;
    if (told === this.#told) return;
    this.#told = told;
    this.#elsewhere = heard(told);
    const { promised, taken } = this.#elsewhere;
    for (const [name, { from }] of this.#promised)
      if (isTaken(from, taken.get(name)) && this.#promised.delete(name)) this.#learn(1);
    for (const [name, { from }] of promised)
      if (isTaken(from, taken.get(name)) || isTaken(from, this.#taken.get(name))) promised.delete(name);
  }

  /** Tells the other replicas what waits and what was promised here. Repeats that at intervals while there is anything. */
  tell(): void {
    if (this.#isTelling || this.#options.config().replicas === 1) return;
    this.#forget();
    const now = this.#now();
    const news: News[] = [];
    const { waiting } = this.#options;
    // A call that has come in this instant and can go now gets its permit next, and is then known as spent. It must not count twice.
    const queue = [...waiting].filter((one) => one.dueAt > now || one.enteredAt < now);
    for (const { request, dueAt } of queue.slice(0, MOST_NEWS)) {
      const [{ app, priority }] = chargesOf(request);
      news.push([priority, app, dueAt - now]);
    }
    for (const [name, { app, priority, from }] of [...this.#promised].slice(0, MOST_NEWS))
      news.push([`${priority} ${name}`, app, from - now]);
    for (const [name, from] of this.#taken) news.push([`taken ${name}`, "", from - now]);
    if (news.length > 0 || waiting.size > 0)
      for (const app of this.#asked.keys()) news.push(["asked", app, this.#askedBy(app, now)]);
    if (news.length === 0 && !this.#hasTold) return;
    this.#options.limiter.announce(news);
    this.#hasTold = news.length > 0;
    this.#isTelling = true;
    this.#options.clock.after(TELL_MS, () => {
      this.#isTelling = false;
      this.tell();
    });
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  #learn(wasTaken: 0 | 1): void {
    this.#takenPart += (wasTaken - this.#takenPart) * LEARNED;
  }

  #forget(): void {
    const before = this.#now() - GRACE_MS;
    for (const [name, { from }] of this.#promised)
      if (from < before && this.#promised.delete(name)) this.#learn(0);
    for (const [name, from] of this.#taken) if (from < before) this.#taken.delete(name);
  }
}

/** Reads what other replicas told. */
// oxlint-disable-next-line typescript/explicit-function-return-type
function heard({ at: toldAt, news }: Told) {
  const waiting: Queued[] = [];
  const promised = new Map<string, Promised>();
  const taken = new Map<string, number>();
  const asked: [app: string, calls: number][] = [];
  for (const [what, app, value] of news) {
    const [kind, name] = what.split(" ");
    const priority = PRIORITIES.find((one) => one === kind);
    const from = toldAt + value;
    if (kind === "asked") asked.push([app, value]);
    else if (priority === undefined) taken.set(name ?? "", from);
    else if (name === undefined) waiting.push({ app, priority, from: toldAt, dueAt: from, weight: 1 });
    else promised.set(name, { app, priority, from, madeAt: 0 });
  }
  return { waiting, promised, taken, asked, isAnyoneBusy: news.length > 0 };
}

/** Whether this promise was taken, not an earlier one to the same caller. Instants from other replicas are not exact. */
const isTaken = (from: number, takenFrom = 0): boolean => from < takenFrom + KNOWN_MS;

/** A caller that comes back is known by its app and its question. */
function nameOf(request: UpstreamRequest): string {
  return queryHash(`${chargesOf(request)[0].app} ${request.resource} ${request.query}`);
}
