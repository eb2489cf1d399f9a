import type { Observer } from "../types.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";

/** Writes everything that happens to the log and the metrics. */
export function createObserver(log: Logger, metrics: Metrics): Observer {
  return {
    request(record) {
      metrics.request(record);
      log.info(record, "request");
    },
    upstreamCall(record) {
      metrics.upstreamCall(record);
      log.info(record, "upstream call");
    },
    refreshed: metrics.refreshed,
    warmed: metrics.warmed,
    info: (message, fields) => log.info(fields, message),
    warn: (message, fields) => log.warn(fields, message),
    error: (message, fields) => log.error(fields, message),
  };
}
