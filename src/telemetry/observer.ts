/** The observer of the stages: it writes to the log and counts in the metrics. */
import type { Observer } from "../types.ts";
import { createClientAddress } from "./client-address.ts";
import { createAccessLog } from "./request-log.ts";
import type { Logger } from "./log.ts";
import type { LogSettings } from "./log-control.ts";
import type { Metrics } from "./metrics.ts";
import { createOutages } from "./outages.ts";
import type { ServedAges } from "./served-ages.ts";

export interface ObserverOptions {
  /** The metric label of an app: the log names every app, the metrics only some. */
  readonly labelOf: (app: string) => string;
  readonly logSettings: () => LogSettings;
  readonly servedAges: Pick<ServedAges, "count">;
  /** The addresses and networks of proxies in front of the gateway (`server.trustedProxies`). */
  readonly trustedProxies: readonly string[];
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export function createObserver(
  log: Logger,
  metrics: Metrics,
  { labelOf, logSettings, servedAges, trustedProxies, now }: ObserverOptions,
): Observer {
  const access = createAccessLog(log, logSettings, createClientAddress(trustedProxies));
  const outages = createOutages(log, now);
  return {
    request(record, caller) {
      if (record.ageMs !== undefined) servedAges.count(record.ageMs, record.receivedAt);
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
