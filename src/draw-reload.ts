/**
 * Settings that are read again while the process runs: validated as a whole, then applied as a whole.
 */
import { keptMs } from "./ratelimit/windows.ts";
import type { Warm } from "./cache/warm.ts";
import type { Budgets } from "./draw-budgets.ts";
import { type ReadWarmItems, warmChanges, type WarmList } from "./draw-warm.ts";
import { ORIGINS } from "./types.ts";
import type { Logger } from "./telemetry/log.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { Clock } from "./process/clock.ts";
import type { Config } from "./config/config.ts";
import type { LiveSettings, Reload } from "./config/live-settings.ts";
import type { PrivateKeys } from "./config/private-keys.ts";
import { describeChange } from "./config/setting-changes.ts";

export interface ReloadParts {
  readonly settings: LiveSettings;
  readonly keys: PrivateKeys;
  readonly budgets: Budgets;
  readonly warm: Pick<Warm, "items" | "replace">;
  readonly readWarmItems: ReadWarmItems;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly clock: Clock;
}

/** @param by who asked for it, for the log */
export type ReloadNow = (by: "SIGHUP" | "request") => Reload<WarmList>;

export function drawReload(parts: ReloadParts): ReloadNow {
  const { settings, keys, budgets, warm, metrics, log, clock } = parts;
  metrics.config.inForce(clock.now());

  return function reload(by) {
    const reload = settings.reload(parts.readWarmItems);
    metrics.config.reloaded(reload.kind);
    if (reload.kind !== "applied") {
      const { kind, problems } = reload;
      log.error(
        { by, result: kind, problems },
        "The settings were read again, and nothing of them was applied.",
      );
      return reload;
    }
    const { config, also } = reload;
    metrics.config.inForce(clock.now());
    log.level = config.log.level;
    // The file of the key may have changed though nothing in the settings has.
    const isNewKey = keys.replace(config.upstream.privateKey);
    const isTold = reload.changes.some(({ path }) => path === "upstream.privateKey");
    // Nor need the list of what is kept warm be another file.
    const newWarm = warmChanges(warm.items(), also.items);
    if (newWarm.length > 0) warm.replace(also.items);
    const changes = [
      ...reload.changes,
      ...(isNewKey && !isTold ? [{ path: "upstream.privateKey" }] : []),
      ...newWarm,
    ];
    for (const origin of ORIGINS) budgets[origin].throttle.retune();
    log.info({ by, changes: changes.map(describeChange) }, "The settings were read again, and are in force.");
    return { ...reload, changes };
  };
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
          `budget.${name}: a window longer than a day and than any until now: what was sent is not remembered for so long`,
      ),
      ...(next.cache.retentionMs > started.cache.retentionMs
        ? [
            "cache: answers would be kept for longer than purges are remembered since the start (cache.retention)",
          ]
        : []),
    ];
  };
}
