/**
 * Reloads the settings while the process runs. All settings are validated first, and then applied together.
 */
import type { Warm } from "./cache/warm.ts";
import { type Budgets, configureBudgets } from "./ratelimit/budgets.ts";
import { readWarmItems, type WarmList } from "./cache/warm-list.ts";
import type { Context } from "./context.ts";
import { describeChange, type Reload } from "./config/live.ts";

/** @param by what triggered the reload, for the log */
export type ReloadNow = (by: "SIGHUP" | "request" | "file") => Reload<WarmList>;

export function createReload(
  { settings, apps, metrics, log, clock, secretFiles }: Context,
  { budgets, warm }: { readonly budgets: Budgets; readonly warm: Pick<Warm, "replace"> },
): ReloadNow {
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
    secretFiles.use(usable);
    log.info({ by, changes: changes.map(describeChange) }, "Reload done. The new settings are in force.");
    return reload;
  };
}
