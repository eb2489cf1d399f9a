/** Logs Node's warnings and the console output of libraries as JSON. Otherwise they would be plain text in the log. */
import { format } from "node:util";

type Log = (fields: Readonly<Record<string, unknown>>, message: string) => void;

/** Redirects the warnings and the console of the whole process to the log. */
export function logPlainText(log: { readonly info: Log; readonly warn: Log }): void {
  // Removes Node's own listener, which prints warnings as plain text.
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
