/** Node's warnings, and what libraries write to the console. Both would be plain text among the JSON lines of the log. */
import { format } from "node:util";

type Log = (fields: Readonly<Record<string, unknown>>, message: string) => void;

/** Passes all of it to the log, from now on and in the whole process. */
export function logPlainText(log: { readonly info: Log; readonly warn: Log }): void {
  // The listener that Node itself has added prints the warning.
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    const code: unknown = Reflect.get(warning, "code");
    const { name, message } = warning;
    log.warn({ warning: name, text: message, ...(typeof code === "string" && { code }) }, "Node warns.");
  });
  for (const method of ["log", "info", "debug", "warn", "error", "trace"] as const) {
    const write = method === "warn" || method === "error" ? log.warn : log.info;
    console[method] = (...args: unknown[]) =>
      write.call(log, { text: format(...args) }, "A library wrote to the console.");
  }
}
