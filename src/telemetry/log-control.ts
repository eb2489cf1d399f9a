/** What the log contains, and its change while the process runs. */
import type { Logger } from "./log.ts";

/** The section `log` of the settings. */
export interface LogSettings {
  readonly level: "trace" | "debug" | "info" | "warn" | "error" | "silent";
  readonly access: "on" | "off" | "sampled" | "errors";
  readonly accessSample: number;
}

export interface LogControl {
  readonly current: () => LogSettings;
  /** Applies until the settings are reloaded or the process ends. */
  readonly change: (change: Partial<LogSettings>) => LogSettings;
}

export function createLogControl(log: Logger, initial: LogSettings): LogControl {
  let settings = initial;
  return {
    current: () => settings,
    change(change) {
      settings = { ...settings, ...change };
      log.level = settings.level;
      return settings;
    },
  };
}
