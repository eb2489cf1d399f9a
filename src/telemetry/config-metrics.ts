import { SETTINGS } from "./catalogue.ts";
import type { Instruments } from "./instruments.ts";
import { RELOAD_RESULTS, type ReloadResult } from "./labels.ts";

export interface ConfigMetrics {
  readonly reloaded: (result: ReloadResult) => void;
  /** Settings have come into force. @param at epoch milliseconds */
  readonly inForce: (at: number) => void;
}

/** Whether the settings in force are those that are written. */
export function registerConfigMetrics({ counter, gauge }: Instruments): ConfigMetrics {
  const reloads = counter(SETTINGS.reloads);
  const successful = gauge(SETTINGS.lastReloadSuccessful);
  const succeededAt = gauge(SETTINGS.lastReloadSuccess);
  for (const result of RELOAD_RESULTS) reloads.inc({ result }, 0);
  return {
    reloaded(result) {
      reloads.inc({ result });
      successful.set(result === "applied" ? 1 : 0);
    },
    inForce(at) {
      successful.set(1);
      succeededAt.set(at / 1000);
    },
  };
}
