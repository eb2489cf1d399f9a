import { constants } from "node:os";

/** The signals that ask a process to stop. */
const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;
type StopSignal = (typeof STOP_SIGNALS)[number];

/**
 * Calls back at the first signal that asks to stop. A second one, of either kind, ends the process at once,
 * with the exit code that shells know it by: 128 and the signal's number.
 */
export function whenToldToStop(stop: (signal: StopSignal) => void): void {
  let told = false;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      if (told) process.exit(128 + constants.signals[signal]);
      told = true;
      stop(signal);
    });
  }
}

/** Calls back at every SIGHUP, which by custom asks a process to read its settings again. */
export function whenToldToReload(reload: () => void): void {
  process.on("SIGHUP", reload);
}
