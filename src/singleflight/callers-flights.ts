/**
 * Request coalescing in this process: one flight for each key, with any number of waiting callers.
 *
 * The flight owns the upstream call, independently of any caller's connection. Each waiter has its own deadline and may hang
 * up. The flight continues for the other waiters and for the cache. When the last waiter has left, the flight is abandoned:
 * a queued call is withdrawn, and a call that was sent is completed and stored.
 *
 * In the queue, a flight has the priority of its most urgent waiter, and any waiting app may pay for it. So a caller that
 * joins a background refresh, or the flight of an app without budget, does not wait longer because of that.
 */
import { Problem } from "../errors.ts";
import { type Priority, urgencyOf } from "../telemetry/events.ts";
import type { RefuseLate, Waiting } from "../ratelimit/call-facts.ts";
import type { GatewayRequest } from "../query/request.ts";
import type { Clock } from "../process/clock.ts";

/** A request that waits for an upstream call: its app, deadline and priority, and whether the caller hung up. */
export interface Waiter extends Pick<GatewayRequest, "app" | "deadlineAt" | "priority"> {
  /** Aborted when the caller hangs up. */
  readonly gone: AbortSignal;
  /** Whether its deadline ends its wait only while the call is queued. After that it waits until the flight ends. */
  readonly isPatient?: boolean;
}

/**
 * Makes the upstream call of a flight.
 * @param answer gives the waiters their result before the call ends, while it is being stored
 */
type Call<T> = (waiting: Waiting, answer: (result: T) => void) => Promise<T>;

/** What a waiter gets, and when the flight ends. Until then, other waiters can join it, and get the same. */
interface Landed<T> extends Pick<Flight<T>, "ended"> {
  /** `undefined`: the flight was withdrawn because it had no waiters, and this waiter must join again. */
  readonly value: T | undefined;
  /** Whether the flight already existed. */
  readonly collapsed: boolean;
}

export type Flights<T> = ReturnType<typeof createFlights<T>>;

// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createFlights<T>(clock: Clock) {
  const flights = new Map<string, Flight<T>>();
  return {
    /** The number of flights that have not ended. */
    size: (): number => flights.size,
    /** Resolves when no flight is left, including flights that start in the meantime. */
    settled: async (): Promise<void> => {
      while (flights.size > 0) await Promise.all([...flights.values()].map(({ ended }) => ended));
    },
    /**
     * Waits for the flight of a key, and starts one if there is none.
     * Rejects with the error of the flight. When the waiter's deadline passes, rejects with the reason why the call is still
     * queued, or with `deadline-exceeded` if it was sent. When the caller hangs up, rejects with an error that no caller receives.
     */
    join: async (key: string, waiter: Waiter, call: Call<T>): Promise<Landed<T>> => {
      const existing = flights.get(key);
      const flight = existing ?? new Flight<T>(call, () => flights.delete(key));
      flights.set(key, flight);
      // A flight without waiters may be withdrawn from the queue, although this waiter joins it.
      const result = flight.abandoned.aborted ? flight.result.catch(() => undefined) : flight.result;
      const deadline = watchDeadline(waiter, clock, flight);
      flight.join(waiter);
      try {
        const value = await Promise.race([result, deadline.passed]);
        return { value, collapsed: existing !== undefined, ended: flight.ended };
      } finally {
        deadline.stop();
        flight.leave(waiter);
      }
    },
  };
}

/** A call, and the callers that wait for it. */
class Flight<T> implements Waiting {
  /** What the waiters get. */
  readonly result: Promise<T>;
  /** Resolves when the result is also stored, or the flight failed. */
  readonly ended: Promise<void>;
  readonly abandoned: AbortSignal;
  readonly #abandon = new AbortController();
  /** By app. Only the first waiter of an app and the last one that leaves cause a notification. */
  readonly #waiters = new Map<string, Set<Waiter>>();
  readonly #listeners: (() => void)[] = [];
  /** Each waiter can raise it, also the first one. */
  #priority: Priority = "prefetch";
  refuseLate: RefuseLate = () => undefined;

  constructor(call: Call<T>, onEnd: () => void) {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.abandoned = this.#abandon.signal;
    this.result = promise;
    // All waiters may have left before it fails. Then the rejection must not count as unhandled.
    promise.catch(() => undefined);
    // One tick later, so that the first waiter has joined when the call asks for its deadline.
    this.ended = Promise.resolve()
      .then(() => call(this, resolve))
      .finally(onEnd)
      .then(resolve, reject);
  }

  readonly priority = (): Priority => this.#priority;
  readonly apps = (): readonly string[] => [...this.#waiters.keys()];
  readonly onChange = (listen: () => void): void => void this.#listeners.push(listen);
  readonly inQueue = (refuse: RefuseLate): void => void (this.refuseLate = refuse);
  readonly deadlineAt = (): number => {
    const all = this.#waiters.values().flatMap((ofApp) => ofApp);
    return Math.max(...all.map((waiter) => waiter.deadlineAt));
  };

  join(waiter: Waiter): void {
    const { app, priority } = waiter;
    const ofApp = this.#waiters.get(app);
    const isMoreUrgent = urgencyOf(priority) < urgencyOf(this.#priority);
    if (isMoreUrgent) this.#priority = priority;
    this.#waiters.set(app, (ofApp ?? new Set()).add(waiter));
    if (isMoreUrgent || ofApp === undefined) this.#notify();
  }

  /** Abandons the flight when the last waiter leaves. */
  leave(waiter: Waiter): void {
    const ofApp = this.#waiters.get(waiter.app);
    ofApp?.delete(waiter);
    if (ofApp?.size !== 0) return;
    this.#waiters.delete(waiter.app);
    if (this.#waiters.size === 0) this.#abandon.abort(NO_WAITERS);
    else this.#notify();
  }

  #notify(): void {
    for (const listen of this.#listeners) listen();
  }
}

/** Every flight ends with an abort. A constant reason is cheap; without it, each abort creates an exception with a stack. */
const NO_WAITERS = "the flight has no waiters";

/**
 * @param flight its `refuseLate` returns why the waiter is refused if the call is still queued
 * @returns `passed`, which rejects when the waiter's deadline passes or the caller hangs up
 */
function watchDeadline(waiter: Waiter, clock: Clock, flight: { readonly refuseLate: RefuseLate }) {
  const { gone, deadlineAt, isPatient = false } = waiter;
  const { promise: passed, reject } = Promise.withResolvers<never>();
  const onGone = (): void => reject(new Error("the caller hung up"));
  const cancel = clock.after(deadlineAt - clock.now(), () => {
    const refusal = flight.refuseLate(waiter);
    if (refusal !== undefined) reject(refusal);
    // The call was sent, or may have been sent.
    else if (!isPatient) reject(new Problem("deadline-exceeded", { internal: "the flight had not ended" }));
  });
  if (gone.aborted) onGone();
  else gone.addEventListener("abort", onGone, { once: true });
  return {
    passed,
    stop: () => {
      cancel();
      gone.removeEventListener("abort", onGone);
    },
  };
}
