/**
 * Reloads the settings while the process runs. All settings are validated first, and then applied together.
 */
import type { Warm } from "./cache/warm.ts";
import { type Budgets, configureBudgets } from "./ratelimit/budgets.ts";
import type { Apps } from "./ratelimit/apps.ts";
import { readWarmItems, type WarmList } from "./cache/warm-list.ts";
import type { Logger } from "./telemetry/log.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { Clock } from "./process/clock.ts";
import type { Config } from "./config/config.ts";
import { describeChange, type LiveSettings, type Reload } from "./config/live.ts";
import type { SecretFiles } from "./config/secret-files.ts";

export interface ReloadOptions {
  readonly settings: LiveSettings;
  readonly budgets: Budgets;
  readonly apps: Apps;
  readonly warm: Pick<Warm, "replace">;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly clock: Clock;
  readonly secretFiles: Pick<SecretFiles, "use">;
}

/** @param by what triggered the reload, for the log */
export type ReloadNow = (by: "SIGHUP" | "request") => Reload<WarmList>;

export function createReload(parts: ReloadOptions): ReloadNow {
  const { settings, budgets, apps, warm, metrics, log, clock } = parts;
  metrics.config.inForce(clock.now());

  return function reload(by) {
    const reload = settings.reload(readWarmItems);
    metrics.config.reloaded(reload.kind);
    if (reload.kind !== "applied") {
      const { kind, problems } = reload;
      log.error({ by, result: kind, problems }, "Reload failed. The previous settings stay in force.");
      return reload;
    }
    const { usable, also, changes } = reload;
    const { config } = usable;
    metrics.config.inForce(clock.now());
    log.level = config.log.level;
    if (changes.some(({ path }) => path === "warm")) warm.replace(also.items);
    configureBudgets(budgets, apps, config);
    parts.secretFiles.use(usable);
    log.info({ by, changes: changes.map(describeChange) }, "Reload done. The new settings are in force.");
    return reload;
  };
}

const DAY_MS = 86_400_000;

/** How long calls are remembered. It is at least a day, because apps may have a daily limit. */
function keptMs(windows: Config["budget"]["limit"]): number {
  return Math.max(DAY_MS, ...windows.map(({ windowMs }) => windowMs));
}

/** @returns why valid settings cannot be applied while the process runs */
export function restartReasons(current: Config, next: Config): string[] {
  return (["limit", "images"] as const)
    .filter((name) => keptMs(next.budget[name]) > keptMs(current.budget[name]))
    .map(
      (name) =>
        `budget.${name}: the window is longer than a day and than all windows so far. Requests are not remembered that long.`,
    );
}
