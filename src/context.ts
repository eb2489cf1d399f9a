/**
 * What every part may need: settings, keys, clock, log, metrics.
 */
import type { Config } from "./config/config.ts";
import type { SettingsSource } from "./config/load.ts";
import { createLiveSettings } from "./config/secrets/reread-secret-files.ts";
import { ORIGINS } from "./interface/resources.ts";
import type { Clock } from "./process/clock.ts";
import { connectionsThatFit } from "./process/open-files.ts";
import type { Random } from "./process/random.ts";
import { Apps } from "./ratelimit/apps.ts";
import type { Observer } from "./telemetry/events.ts";
import { createRedact, type Logger } from "./telemetry/log.ts";
import { createMetrics } from "./telemetry/metrics.ts";
import { createAccessLog } from "./telemetry/access-log.ts";
import { createOutages } from "./telemetry/outage-log.ts";
import type { Tracing, TracingOptions } from "./telemetry/tracing.ts";

/** What the process passes to the gateway. */
export interface GatewayOptions {
  readonly source: SettingsSource;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** Absent if requests are not traced. */
  readonly createTracing?: ((options: TracingOptions) => Tracing) | undefined;
  /** The most files and connections that the process may open; absent if unknown. */
  readonly openFiles?: number | undefined;
}

/** Process-wide dependencies that are injected. */
export type Context = Readonly<ReturnType<typeof createContext>>;

/** @param recorder records requests, calls and warnings for the status page */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createContext(
  options: GatewayOptions,
  recorder: Pick<Observer, "request" | "upstreamCall"> & { readonly warn: (message: string) => void },
) {
  const { source, clock, log } = options;
  const { keys } = source;
  const { config } = source.first;
  const metrics = createMetrics();
  const apps = new Apps(config);
  const outages = createOutages(log, clock.now, recorder.warn);
  const access = createAccessLog(log, () => settings.current().log, config.server.trustedProxies);
  const observer: Observer = {
    request(record, caller) {
      // The log names every app, the metrics only some.
      metrics.request(record, apps.labelOf(record.app));
      outages.request(record);
      access.request(record, caller);
      recorder.request(record);
    },
    upstreamCall(record) {
      metrics.upstreamCall(record);
      access.upstreamCall(record);
      recorder.upstreamCall(record);
    },
    refreshed: (resource, change) => metrics.record("gateway_refreshes_total", { resource, change }),
    warmed: (resource, result) => metrics.record("gateway_warm_fetches_total", { resource, result }),
    outOfOrder: outages.outOfOrder,
    backInOrder: outages.backInOrder,
    info: (message, fields) => log.info(fields, message),
    warn(message, fields) {
      log.warn(fields, message);
      recorder.warn(message);
    },
    error(message, fields) {
      log.error(fields, message);
      recorder.warn(message);
    },
  };
  const settings = createLiveSettings({ ...observer, ...source, clock });
  const redact = createRedact(keys.known);
  return {
    ...options,
    /** The private keys. The settings contain only the first one. */
    keys,
    /** The settings at the start, for values that cannot change while the process runs. */
    config,
    /** The limits of both ports. */
    limits: { ...config.server, maxConnections: maxConnectionsOf(config, options.openFiles, observer) },
    /** The settings in force, with the current content of the files that they name. */
    settings,
    metrics,
    observer,
    outages,
    redact,
    tracing: options.createTracing?.({ observer, redact }),
    /** The calling apps, listed in the settings or not. */
    apps,
  };
}

/** @returns `server.maxConnections`, or fewer if the process may open too few files */
function maxConnectionsOf(
  { server: { maxConnections }, budget }: Config,
  openFiles: number | undefined,
  { warn }: Observer,
): number {
  if (openFiles === undefined) return maxConnections;
  const fitting = connectionsThatFit(openFiles, budget.concurrency * ORIGINS.length);
  if (fitting >= maxConnections) return maxConnections;
  warn(
    `This process may open ${openFiles} files only (ulimit -n), so each port takes ${fitting} connections at once ` +
      `instead of ${maxConnections} (server.maxConnections).`,
    { openFiles, maxConnections: fitting },
  );
  return fitting;
}
