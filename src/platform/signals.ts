/** The signals that ask a process to stop. */
const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Resolves with the first signal that asks to stop. A second one ends the process at once. */
export function whenToldToStop(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let told = false;
    for (const signal of STOP_SIGNALS) {
      process.on(signal, () => {
        if (told) process.exit(1);
        told = true;
        resolve(signal);
      });
    }
  });
}
