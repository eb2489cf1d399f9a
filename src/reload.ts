/**
 * Reloads the settings while the process runs. All settings are validated first, and then applied together.
 */
import type { Warm } from "./cache/warm.ts";
import { type Budgets, configureBudgets } from "./budgets.ts";
import type { Apps } from "./ratelimit/apps.ts";
import { type ReadWarmItems, warmChanges, type WarmList } from "./warm-list.ts";
import type { LogControl, Logger } from "./telemetry/log.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { Clock } from "./process/clock.ts";
import type { Config } from "./config/config.ts";
import { describeChange, type LiveSettings, type Reload } from "./config/live.ts";
import type { PrivateKeys } from "./config/private-key.ts";

export interface ReloadOptions {
  readonly settings: LiveSettings;
  readonly keys: PrivateKeys;
  readonly budgets: Budgets;
  readonly apps: Apps;
  readonly warm: Pick<Warm, "items" | "replace">;
  readonly readWarmItems: ReadWarmItems;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly logControl: Pick<LogControl, "change">;
  readonly clock: Clock;
  /** Reads the files again that the new settings name. */
  readonly checkFiles: () => void;
}

/** @param by what triggered the reload, for the log */
export type ReloadNow = (by: "SIGHUP" | "request") => Reload<WarmList>;

export function createReload(parts: ReloadOptions): ReloadNow {
  const { settings, keys, budgets, apps, warm, metrics, log, clock } = parts;
  metrics.config.inForce(clock.now());

  return function reload(by) {
    const reload = settings.reload(parts.readWarmItems);
    metrics.config.reloaded(reload.kind);
    if (reload.kind !== "applied") {
      const { kind, problems } = reload;
      log.error({ by, result: kind, problems }, "Reload failed. The previous settings stay in force.");
      return reload;
    }
    const { config, also } = reload;
    metrics.config.inForce(clock.now());
    parts.logControl.change(config.log);
    // The key file may have changed although no setting has.
    const isNewKey = keys.replace(config.upstream.privateKey);
    const isListed = reload.changes.some(({ path }) => path === "upstream.privateKey");
    // The warm list may have changed although its path has not.
    const newWarm = warmChanges(warm.items(), also.items);
    if (newWarm.length > 0) warm.replace(also.items);
    const changes = [
      ...reload.changes,
      ...(isNewKey && !isListed ? [{ path: "upstream.privateKey" }] : []),
      ...newWarm,
    ];
    configureBudgets(budgets, apps, config);
    parts.checkFiles();
    log.info({ by, changes: changes.map(describeChange) }, "Reload done. The new settings are in force.");
    return { ...reload, changes };
  };
}

const DAY_MS = 86_400_000;

/** How long calls are remembered. It is at least a day, because apps may have a daily limit. */
function keptMs(windows: Config["budget"]["limit"]): number {
  return Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));
}

/** @returns why valid settings cannot be applied while the process runs */
export function restartReasons(started: Config): (current: Config, next: Config) => string[] {
  return (current, next) => {
    const windows = (["limit", "images"] as const).filter(
      (name) => keptMs(next.budget[name]) > keptMs(current.budget[name]),
    );
    return [
      ...windows.map(
        (name) =>
          `budget.${name}: the window is longer than a day and than all windows so far. Requests are not remembered that long.`,
      ),
      ...(next.cache.retentionMs > started.cache.retentionMs
        ? ["cache.retention: longer than at the start. Purges are not remembered that long."]
        : []),
    ];
  };
}
