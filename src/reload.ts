/**
 * Reloads the settings while the process runs. All settings are validated first, and then applied together, or none are.
 */
import type { Warm } from "./cache/warm.ts";
import { readWarmItems } from "./cache/warm-list.ts";
import { changesBetween, describeChange, type ReloadOutcome } from "./config/live.ts";
import type { Context } from "./context.ts";
import { type Budgets, configureBudgets, restartReasons } from "./ratelimit/budgets.ts";

/** @param by what triggered the reload, for the log */
export type ReloadNow = (by: "SIGHUP" | "request" | "file") => ReloadOutcome;

export function createReload(
  { source, settings, apps, metrics, log, clock, secretFiles }: Context,
  { budgets, warm }: { readonly budgets: Budgets; readonly warm: Pick<Warm, "replace"> },
): ReloadNow {
  let inForce = source.first;
  metrics.config.inForce(clock.now());

  function reload(): ReloadOutcome {
    const { usable: next, problems: mistakes } = source.reread();
    if (next === undefined) return { kind: "invalid", problems: mistakes };
    const warmList = readWarmItems(next.settings);
    if (warmList.problems.length > 0) return { kind: "invalid", problems: warmList.problems };
    const changes = changesBetween(inForce, next);
    const problems = [
      ...changes.filter(({ isReloadable }) => !isReloadable).map(describeChange),
      ...restartReasons(settings.current(), next.config),
    ];
    if (problems.length > 0) return { kind: "restart-needed", problems };
    inForce = next;
    settings.use(next.config);
    metrics.config.inForce(clock.now());
    log.level = next.config.log.level;
    if (changes.some(({ path }) => path === "warm")) warm.replace(warmList.items);
    configureBudgets(budgets, apps, next.config);
    secretFiles.use(next);
    return { kind: "applied", changes };
  }

  return (by) => {
    const outcome = reload();
    metrics.config.reloaded(outcome.kind);
    if (outcome.kind === "applied")
      log.info(
        { by, changes: outcome.changes.map(describeChange) },
        "Reload done. The new settings are in force.",
      );
    else {
      const { kind: result, problems } = outcome;
      log.error({ by, result, problems }, "Reload failed. The previous settings stay in force.");
    }
    return outcome;
  };
}
