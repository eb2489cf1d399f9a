import { Counter, Gauge, type Registry } from "prom-client";

/** What may come of reading the settings again. */
const RESULTS = ["applied", "invalid", "restart-needed"] as const;

export interface ConfigMetrics {
  readonly reloaded: (result: (typeof RESULTS)[number]) => void;
  /** Settings have come into force. @param at epoch milliseconds */
  readonly inForce: (at: number) => void;
}

/** Whether the settings in force are those that are written. */
export function registerConfigMetrics(registry: Registry): ConfigMetrics {
  const registers = [registry];
  const reloads = new Counter({
    name: "gateway_config_reloads_total",
    help: "Times the settings were read again, by what came of it.",
    labelNames: ["result"],
    registers,
  });
  const successful = new Gauge({
    name: "gateway_config_last_reload_successful",
    help: "Whether the settings were applied when they were read last: 1, or 0 where the earlier ones stay.",
    registers,
  });
  const succeededAt = new Gauge({
    name: "gateway_config_last_reload_success_timestamp_seconds",
    help: "When the settings in force were read.",
    registers,
  });
  for (const result of RESULTS) reloads.inc({ result }, 0);
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
