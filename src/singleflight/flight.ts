/**
 * Coalescing: one flight for one key.
 *
 * The flight owns the upstream call, never the first caller's socket. Each waiter has its own deadline
 * and may hang up; the flight goes on for the others, and for the cache. Only a flight that nobody
 * waits for any more is told so (`abandoned`): what is still in a queue is then withdrawn, what has
 * been sent comes home. In the queue a flight is as urgent as the most urgent of its waiters, and each of their
 * apps may pay for it, so that nobody who waits is held up by having joined a refresh that nobody was waiting for,
 * or the call of an app that has used up its share. That holds for those who wait for it at other replicas, too
 * (`aboard.ts`); how long it is waited for is for those in this process alone.
 */
import { Problem } from "../errors.ts";
import type { FlightWaiting, RefuseLate, Waiter } from "../types.ts";
import type { Clock } from "../process/clock.ts";
import { type Aboard, createAboard } from "./waiters.ts";
import { mayBeWithdrawn } from "./withdrawn.ts";

interface Landed<T> {
  readonly value: T;
  /** Whether somebody else's flight was joined. */
  readonly collapsed: boolean;
}

/** Makes the call that a flight is about. */
type Launch<T> = (waiting: FlightWaiting) => Promise<T>;

export interface Flights<T> {
  /**
   * Waits for the flight of a key, launching it where there is none.
   * Rejects with what the flight rejects with. Where the waiter's deadline passes, with what kept the call in
   * the queue, or, where it is not there, with `deadline-exceeded`; where the waiter hangs up, with `CallerGone`.
   */
  readonly join: (key: string, waiter: Waiter, launch: Launch<T>) => Promise<Landed<T>>;
  /** Flights in the air. */
  readonly size: number;
  /** Resolves when none is in the air any more, those launched meanwhile included. */
  readonly landed: () => Promise<void>;
}

/** The waiter hung up; there is nobody to tell. */
class CallerGone extends Error {
  override readonly name = "CallerGone";
}

interface Flight<T> {
  readonly landing: Promise<T>;
  readonly aboard: Aboard;
  /** Aborted when the last waiter has left. */
  readonly abandoned: AbortController;
  readonly refuseLate: RefuseLate;
}

export function createFlights<T>(clock: Clock): Flights<T> {
  const flights = new Map<string, Flight<T>>();

  function launchFlight(key: string, launch: Launch<T>, first: Waiter): Flight<T> {
    const abandoned = new AbortController();
    const aboard = createAboard(first.priority);
    let refuseLate: RefuseLate = () => undefined;
    const waiting: FlightWaiting = {
      abandoned: abandoned.signal,
      deadlineAt: aboard.deadlineAt,
      priority: aboard.priority,
      apps: aboard.apps,
      onChange: aboard.onChange,
      elsewhere: aboard.elsewhere,
      inQueue: (refuse) => void (refuseLate = refuse),
    };
    // A tick later, so that the first waiter is aboard when the launch asks for the deadline.
    const landing = Promise.resolve()
      .then(() => launch(waiting))
      .finally(() => flights.delete(key));
    // Everyone may have left before it fails; that is no unhandled rejection.
    landing.catch(() => undefined);
    const flight: Flight<T> = {
      landing,
      aboard,
      abandoned,
      refuseLate: (waiter) => refuseLate(waiter),
    };
    flights.set(key, flight);
    return flight;
  }

  return {
    get size() {
      return flights.size;
    },
    async landed() {
      while (flights.size > 0) await Promise.allSettled([...flights.values()].map(({ landing }) => landing));
    },
    async join(key, waiter, launch) {
      let riding: Flight<T> | undefined;
      const patience = createPatience(waiter, clock, () => riding?.refuseLate(waiter));
      try {
        for (;;) {
          const inTheAir = flights.get(key);
          const flight = (riding = inTheAir ?? launchFlight(key, launch, waiter));
          const joinedAbandoned = flight.abandoned.signal.aborted;
          const ride = await rideAlong(flight, waiter, patience.exhausted);
          if (ride.ok) return { value: ride.value, collapsed: inTheAir !== undefined };
          // Joined after everyone had left: it may have been withdrawn for just that. Launch anew.
          const mayGoOn = joinedAbandoned && mayBeWithdrawn(ride.error) && !patience.isExhausted();
          if (!mayGoOn) throw ride.error;
        }
      } finally {
        patience.stop();
      }
    },
  };
}

type Ride<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: unknown };

async function rideAlong<T>(
  { aboard, landing, abandoned }: Flight<T>,
  waiter: Waiter,
  exhausted: Promise<never>,
): Promise<Ride<T>> {
  aboard.join(waiter);
  try {
    return { ok: true, value: await Promise.race([landing, exhausted]) };
  } catch (error) {
    return { ok: false, error };
  } finally {
    if (aboard.leave(waiter) === 0) abandoned.abort();
  }
}

interface Patience {
  readonly exhausted: Promise<never>;
  isExhausted(): boolean;
  stop(): void;
}

/** The call was sent, or nobody here can say whether it was. */
function tooLate(): Problem {
  return new Problem("deadline-exceeded", { internal: "the flight was still in the air" });
}

/**
 * A promise that rejects when a waiter's deadline passes or it hangs up, until stopped; or, while the call is in the
 * queue, at the end of its time for that.
 * @param refuseLate refuses the waiter if the call is in the queue; asked only at those times
 */
function createPatience(waiter: Waiter, clock: Clock, refuseLate: () => Problem | undefined): Patience {
  const { promise, reject } = Promise.withResolvers<never>();
  let ended = false;
  const end = (error: Error): void => {
    ended = true;
    reject(error);
  };
  const onGone = (): void => end(new CallerGone());
  const endAt = (at: number, why: () => Problem | undefined): (() => void) =>
    clock.after(at - clock.now(), () => {
      const problem = ended ? undefined : why();
      if (problem !== undefined) end(problem);
    });
  const timers = [
    ...(waiter.placeBy === undefined ? [] : [endAt(waiter.placeBy, refuseLate)]),
    endAt(waiter.deadlineAt, () => refuseLate() ?? tooLate()),
  ];
  // Nobody may be racing it at the time.
  promise.catch(() => undefined);
  if (waiter.gone.aborted) onGone();
  else waiter.gone.addEventListener("abort", onGone, { once: true });
  return {
    exhausted: promise,
    isExhausted: () => ended,
    stop: () => {
      for (const cancel of timers) cancel();
      waiter.gone.removeEventListener("abort", onGone);
    },
  };
}
