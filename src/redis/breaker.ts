/**
 * A circuit breaker: in an outage of Redis, only one timeout passes for all callers together, not one for each.
 *
 * The first fault opens the breaker and releases every waiting caller. While it is open, it refuses every call immediately.
 * At intervals, the breaker itself probes the service with one call at a time, so no caller waits for a probe.
 */
import type { Clock } from "../process/clock.ts";
import type { CircuitState } from "../types.ts";

/** `half-open`: the probe is in flight. */
export type BreakerState = CircuitState;

/** The service does not work, so the call was refused or ended early. `cause` is the fault. */
export class BreakerOpen extends Error {
  override readonly name = "BreakerOpen";

  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

export interface BreakerOptions {
  readonly clock: Clock;
  /** A call that takes longer is a fault. In milliseconds; time in which this process is blocked does not count. */
  readonly timeoutMs: number;
  readonly probeIntervalMs: number;
  /** Checks whether the service works again for the key of the call with the fault. */
  readonly probe: (about: string) => Promise<unknown>;
  /** Whether an error means that the service does not work, and not only that this call was wrong. */
  readonly isFault: (error: unknown) => boolean;
  /** Called with the fault that opens the breaker, and with that of every probe that fails later. */
  readonly onFault: (fault: Fault) => void;
  readonly onState: (state: BreakerState) => void;
}

export interface Fault {
  readonly cause: Error;
  readonly foundBy: "call" | "probe";
  /** The key of the call; for a probe, the key of the call that opened the breaker. */
  readonly about: string;
}

export interface Breaker {
  readonly state: BreakerState;
  /**
   * Makes a call. Rejects with the error of the call, or with `BreakerOpen` if that is a fault.
   * @param about the key of the call, which the probe gets if this call has the fault
   */
  readonly run: <T>(about: string, call: () => Promise<T>) => Promise<T>;
  /** Call it when the service may work again. Probes immediately, unless a probe has already failed. */
  readonly signOfLife: () => void;
  /** Stops probing and refuses every call from now on. */
  readonly close: () => void;
}

export function createBreaker(options: BreakerOptions): Breaker {
  const { clock, probeIntervalMs, probe, isFault, onFault, onState } = options;
  const timeouts = createTimeouts(clock, options.timeoutMs, fail);
  let state: BreakerState = "closed";
  /** The error for callers while it is open. */
  let refusal = new BreakerOpen(new Error("closed"));
  let suspect = "";
  let hasProbeFailed = false;
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
    hasProbeFailed = foundBy === "probe";
    become("open");
    timeouts.releaseAll(refusal);
    cancelProbe = clock.after(probeIntervalMs, () => void probeNow());
    onFault({ cause, foundBy, about });
  }

  async function guarded<T>(about: string, call: () => Promise<T>): Promise<T> {
    try {
      return await timeouts.run(about, call);
    } catch (error) {
      if (error instanceof BreakerOpen || !isFault(error)) throw error;
      // If several calls fail together, the first one opens the breaker.
      if (state !== "open") fail(error instanceof Error ? error : new Error(String(error)), about);
      throw refusal;
    }
  }

  async function probeNow(): Promise<void> {
    cancelProbe();
    become("half-open");
    try {
      await guarded(suspect, () => probe(suspect));
    } catch (error) {
      if (error instanceof BreakerOpen) return;
      // An error that is not a fault shows that the service works.
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
      if (state === "open" && !hasProbeFailed && !isClosedForGood) void probeNow();
    },
    close() {
      isClosedForGood = true;
      cancelProbe();
      refusal = new BreakerOpen(new Error("closed"));
      timeouts.releaseAll(refusal);
    },
  };
}

/** A call in progress. */
interface InFlight {
  ticksLeft: number;
  readonly about: string;
  readonly release: (error: Error) => void;
}

interface Timeouts {
  /** Makes a call. Settles with its result, or when it is released. */
  readonly run: <T>(about: string, call: () => Promise<T>) => Promise<T>;
  /** Rejects every call that is in flight. */
  readonly releaseAll: (error: Error) => void;
}

/**
 * A timeout is this many ticks of a timer, not a difference of instants. If this process was blocked for longer than the
 * timeout, answers may wait unread in its sockets. That is not a fault of the service.
 */
const TICKS = 10;

/** Watches all calls with one timer. */
function createTimeouts(
  clock: Clock,
  timeoutMs: number,
  onTimeout: (error: Error, about: string) => void,
): Timeouts {
  const all = new Set<InFlight>();
  /** Cancels the next tick; absent while no call is in flight. */
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
