/**
 * Process-wide events: signals, and errors that no code has caught.
 */
import { constants } from "node:os";

import { type Clock, every } from "./clock.ts";

const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;

/**
 * Calls back at the first SIGTERM or SIGINT. A second one ends the process immediately, with the exit code that shells use:
 * 128 plus the number of the signal.
 */
export function onStopSignal(stop: (signal: (typeof STOP_SIGNALS)[number]) => void): void {
  let isStopping = false;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      if (isStopping) process.exit(128 + constants.signals[signal]);
      isStopping = true;
      stop(signal);
    });
  }
}

const PARENT_CHECK_MS = 1_000;

/**
 * Calls back once when the parent process has ended. At a SIGHUP or SIGKILL, npm ends without sending a signal to the process
 * that it runs. That process would then go on running and keep its ports.
 */
export function onParentGone(clock: Clock, gone: () => void): void {
  const parent = process.ppid;
  const stop = every(clock, PARENT_CHECK_MS, () => {
    if (process.ppid === parent) return;
    stop();
    gone();
  });
}

/**
 * Calls back at every uncaught exception and unhandled rejection. The process should then stop, because its state is
 * unknown. Further errors do not interrupt the stop.
 */
export function onUncaughtError(
  onError: (error: unknown, origin: NodeJS.UncaughtExceptionOrigin) => void,
): void {
  let isLogClosed = false;
  process.on("uncaughtException", (error: unknown, origin) => {
    const isFromLog = error instanceof Error && Reflect.get(error, "code") === "EPIPE";
    // If the reader of the log has gone, every line fails, including the line about the failure.
    if (isFromLog && isLogClosed) return;
    isLogClosed ||= isFromLog;
    onError(error, origin);
  });
}

/**
 * The properties of an error that may be logged. Libraries attach URLs and commands with their arguments to their errors,
 * so only these known properties are taken.
 */
export function describeError(error: unknown): Readonly<Record<string, unknown>> {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error) };
  const { name, message, stack, cause } = error;
  const code: unknown = Reflect.get(error, "code");
  return {
    type: name,
    message,
    stack,
    ...(typeof code === "string" && { code }),
    ...(cause !== undefined && { cause: describeError(cause) }),
  };
}
