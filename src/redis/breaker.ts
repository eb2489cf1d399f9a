/**
 * A circuit breaker: a service that is out of order costs its callers one timeout, once, not one each.
 *
 * The first fault opens it, and everyone who was waiting then is released at once, not only the one who
 * met the fault. While it is open every call is refused at once. After an interval the breaker asks the
 * service itself, one question at a time, whether it is back, so no caller ever pays for finding out.
 */
import type { Clock } from "../process/clock.ts";
import type { CircuitState } from "../types.ts";

/** `half-open`: the one question is on its way. */
export type BreakerState = CircuitState;

/** The call was refused or cut short: the service is out of order. `cause` is the fault. */
export class BreakerOpen extends Error {
  override readonly name = "BreakerOpen";

  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

export interface BreakerOptions {
  readonly clock: Clock;
  /** A call that takes longer is a fault. In milliseconds, counted while this process is not busy itself. */
  readonly timeoutMs: number;
  readonly probeIntervalMs: number;
  /** Asks the service whether it is in order again, for what met the fault. */
  readonly probe: (about: string) => Promise<unknown>;
  /** Whether an error says that the service is out of order, rather than that this call was wrong. */
  readonly isFault: (error: unknown) => boolean;
  /** Told of the fault that opens it, once per outage, and of every probe that fails after that. */
  readonly onFault: (fault: Fault) => void;
  readonly onState: (state: BreakerState) => void;
}

export interface Fault {
  readonly cause: Error;
  readonly foundBy: "call" | "probe";
  /** What the call was about; of the probe, what the call was about that opened the breaker. */
  readonly about: string;
}

export interface Breaker {
  readonly state: BreakerState;
  /**
   * Makes a call. Rejects with what the call rejects with, or, where that is a fault, with `BreakerOpen`.
   * @param about handed to the probe, should this call meet the fault
   */
  readonly run: <T>(about: string, call: () => Promise<T>) => Promise<T>;
  /** There is a sign that the service is back: asks at once, unless it has been asked in vain already. */
  readonly signOfLife: () => void;
  /** Stops probing; from now on every call is refused. */
  readonly close: () => void;
}

export function createBreaker(options: BreakerOptions): Breaker {
  const { clock, probeIntervalMs, probe, isFault, onFault, onState } = options;
  const watch = createWatch(clock, options.timeoutMs, fail);
  let state: BreakerState = "closed";
  /** What callers get while it is open. */
  let refusal = new BreakerOpen(new Error("closed"));
  let suspect = "";
  let askedInVain = false;
  let isClosedForGood = false;
  let cancelProbe = (): void => undefined;

  function become(next: BreakerState): void {
    state = next;
    onState(next);
  }

  function fail(cause: Error, about: string): void {
    const foundBy = state === "half-open" ? "probe" : "call";
    suspect = about;
    refusal = new BreakerOpen(cause);
    askedInVain = foundBy === "probe";
    become("open");
    watch.releaseAll(refusal);
    cancelProbe = clock.after(probeIntervalMs, () => void ask());
    onFault({ cause, foundBy, about });
  }

  async function guarded<T>(about: string, call: () => Promise<T>): Promise<T> {
    try {
      return await watch.run(about, call);
    } catch (error) {
      if (error instanceof BreakerOpen || !isFault(error)) throw error;
      // Of many that fail together, the first has opened it.
      if (state !== "open") fail(error instanceof Error ? error : new Error(String(error)), about);
      throw refusal;
    }
  }

  async function ask(): Promise<void> {
    cancelProbe();
    become("half-open");
    try {
      await guarded(suspect, () => probe(suspect));
    } catch (error) {
      if (error instanceof BreakerOpen) return;
      // An error that is no fault is an answer, and so a sign of life.
    }
    if (!isClosedForGood) become("closed");
  }

  return {
    get state() {
      return state;
    },
    run: (about, call) =>
      state === "closed" && !isClosedForGood ? guarded(about, call) : Promise.reject(refusal),
    signOfLife() {
      if (state === "open" && !askedInVain && !isClosedForGood) void ask();
    },
    close() {
      isClosedForGood = true;
      cancelProbe();
      refusal = new BreakerOpen(new Error("closed"));
      watch.releaseAll(refusal);
    },
  };
}

/** A call that somebody waits for. */
interface InFlight {
  ticksLeft: number;
  readonly about: string;
  readonly release: (error: Error) => void;
}

interface Watch {
  /** Makes a call; settles as it does, or when it is released. */
  readonly run: <T>(about: string, call: () => Promise<T>) => Promise<T>;
  /** Lets nobody wait any longer. */
  readonly releaseAll: (error: Error) => void;
}

/**
 * A call's time is counted in so many ticks of a timer, not by the clock: if this process was busy for
 * longer than the timeout, answers may lie unread in its sockets, and that is no fault of the service.
 */
const TICKS = 10;

/** Keeps watch over all calls with one timer. */
function createWatch(
  clock: Clock,
  timeoutMs: number,
  onTimeout: (error: Error, about: string) => void,
): Watch {
  const all = new Set<InFlight>();
  /** Cancels the next tick; absent where nobody waits. */
  let cancelTick: (() => void) | undefined;

  function tick(): void {
    cancelTick = undefined;
    let overdue: InFlight | undefined;
    for (const inFlight of all) if (--inFlight.ticksLeft <= 0) overdue ??= inFlight;
    if (overdue === undefined) keepTicking();
    else onTimeout(new Error(`no answer within ${timeoutMs} ms`), overdue.about);
  }

  function keepTicking(): void {
    if (all.size > 0) cancelTick ??= clock.after(timeoutMs / TICKS, tick);
  }

  return {
    async run(about, call) {
      const released = Promise.withResolvers<never>();
      const inFlight: InFlight = { ticksLeft: TICKS, about, release: released.reject };
      all.add(inFlight);
      keepTicking();
      try {
        return await Promise.race([call(), released.promise]);
      } finally {
        all.delete(inFlight);
      }
    },
    releaseAll(error) {
      for (const { release } of all) release(error);
      all.clear();
      cancelTick?.();
      cancelTick = undefined;
    },
  };
}
