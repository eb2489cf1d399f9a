/**
 * The events that come to the process from outside the requests: signals, and errors that nothing caught.
 */
import { constants } from "node:os";

const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;
type StopSignal = (typeof STOP_SIGNALS)[number];

/**
 * Calls back at the first SIGTERM or SIGINT. A second one ends the process at once, with the exit code that shells use:
 * 128 plus the number of the signal.
 */
export function onStopSignal(stop: (signal: StopSignal) => void): void {
  let isStopping = false;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      if (isStopping) process.exit(128 + constants.signals[signal]);
      isStopping = true;
      stop(signal);
    });
  }
}

/** Calls back at every SIGHUP, which by convention means: read the settings again. */
export function onReloadSignal(reload: () => void): void {
  process.on("SIGHUP", reload);
}

interface UncaughtError {
  readonly error: unknown;
  readonly origin: NodeJS.UncaughtExceptionOrigin;
}

/** After more errors than this, the process ends at once: it fails too often to stop in order. */
const MAX_ERRORS = 20;

/**
 * Calls back at every uncaught exception and unhandled rejection. The process should then stop, because its state is
 * unknown. Further errors do not interrupt that stop, unless there are very many.
 */
export function onUncaughtError(onError: (error: UncaughtError) => void): void {
  let errors = 0;
  let isLogClosed = false;
  process.on("uncaughtException", (error: unknown, origin) => {
    const isFromLog = error instanceof Error && Reflect.get(error, "code") === "EPIPE";
    // When nobody reads the log, every line fails, also the line about the failure.
    if (isFromLog && isLogClosed) return;
    isLogClosed ||= isFromLog;
    errors++;
    if (errors > MAX_ERRORS) process.exit(1);
    onError({ error, origin });
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
