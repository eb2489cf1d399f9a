/** The stages report to this observer. It writes the log and updates the metrics. */
import type { Observer } from "./events.ts";
import { createAccessLog, createClientAddress } from "./access-log.ts";
import type { Logger, LogSettings } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { createOutages } from "./outages.ts";

export interface ObserverOptions {
  /** The metric label of an app. The log names every app, the metrics only some. */
  readonly labelOf: (app: string) => string;
  readonly logSettings: () => LogSettings;
  /** The addresses and networks of proxies in front of the gateway (`server.trustedProxies`). */
  readonly trustedProxies: readonly string[];
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export function createObserver(
  log: Logger,
  metrics: Metrics,
  { labelOf, logSettings, trustedProxies, now }: ObserverOptions,
): Observer {
  const access = createAccessLog(log, logSettings, createClientAddress(trustedProxies));
  const outages = createOutages(log, now);
  return {
    request(record, caller) {
      metrics.request(record, labelOf(record.app));
      outages.request(record);
      access.request(record, caller);
    },
    upstreamCall(record) {
      metrics.upstreamCall(record);
      access.upstreamCall(record);
    },
    refreshed: metrics.refreshed,
    warmed: metrics.warmed,
    outOfOrder: outages.began,
    backInOrder: outages.ended,
    info: (message, fields) => log.info(fields, message),
    warn: (message, fields) => log.warn(fields, message),
    error: (message, fields) => log.error(fields, message),
  };
}
