/** An error that nobody has caught. */
interface FatalError {
  readonly error: unknown;
  readonly origin: NodeJS.UncaughtExceptionOrigin;
}

/** A process that fails again and again would never get to its end. */
const MOST_ERRORS = 20;

/**
 * Calls back at every error that nobody has caught, thrown or rejected with. The process is to end then:
 * nobody knows what was left half done. Later ones do not keep it from ending in order, but for very many.
 */
export function whenFailed(onError: (error: FatalError) => void): void {
  let errors = 0;
  let isMute = false;
  process.on("uncaughtException", (error: unknown, origin) => {
    const isOfLog = error instanceof Error && Reflect.get(error, "code") === "EPIPE";
    // Nobody reads the log any more. That fails again with every line, and to say so would be one.
    if (isOfLog && isMute) return;
    isMute ||= isOfLog;
    errors++;
    if (errors > MOST_ERRORS) process.exit(1);
    onError({ error, origin });
  });
}

/**
 * What may be logged of an error. Libraries hang onto their errors whatever they were doing, URLs and
 * commands with their arguments too: only what names the error and its place is taken.
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
