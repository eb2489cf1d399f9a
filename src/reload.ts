/**
 * Reloads the settings while the process runs. All settings are validated first, and then applied together, or none are.
 */
import type { Warm } from "./cache/warm.ts";
import { readWarmItems } from "./cache/warm-list.ts";
import { REREAD_EVERY_MS } from "./config/secrets/reread-secret-files.ts";
import { changesBetween, describeChange, type ReloadOutcome } from "./config/changes.ts";
import type { Context } from "./context.ts";
import { attempt } from "./process/attempt.ts";
import { every } from "./process/clock.ts";
import { type Budgets, restartReasons } from "./ratelimit/budgets.ts";

/** @param by what triggered the reload, for the log */
export type ReloadNow = (by: "SIGHUP" | "request" | "file") => ReloadOutcome;

export function createReload(
  { source, settings, metrics, log, clock }: Context,
  { budgets, warm }: { readonly budgets: Budgets; readonly warm: Pick<Warm, "replace"> },
): ReloadNow {
  let inForce = source.first;
  const recordSuccess = (): void => {
    metrics.record("gateway_config_last_reload_successful", {}, 1);
    metrics.record("gateway_config_last_reload_success_timestamp_seconds", {}, clock.now() / 1000);
  };
  recordSuccess();

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
    settings.use(next);
    log.level = next.config.log.level;
    if (changes.some(({ path }) => path === "warm")) warm.replace(warmList.items);
    budgets.configure(next.config);
    return { kind: "applied", changes };
  }

  return (by) => {
    const outcome = reload();
    metrics.record("gateway_config_reloads_total", { result: outcome.kind });
    if (outcome.kind === "applied") {
      recordSuccess();
      const changes = outcome.changes.map(describeChange);
      log.info({ by, changes }, "Reload done. The new settings are in force.");
    } else {
      metrics.record("gateway_config_last_reload_successful", {}, 0);
      const { kind: result, problems } = outcome;
      log.error({ by, result, problems }, "Reload failed. The previous settings stay in force.");
    }
    return outcome;
  };
}

/**
 * If `watchSettings` is on, reloads when the text of the settings file has changed, or the file can no longer be read. Such a
 * reload fails, and its log line warns operators, because the process could not start again. Reloads also when settings that were
 * not valid have become valid: a file with a secret may come later than the settings that name it.
 * @returns a function that ends it
 */
export function watchSettingsFile({ config, source, clock }: Context, reload: ReloadNow): () => void {
  const { readFile, file } = source;
  if (!config.watchSettings || file === undefined) return () => undefined;
  const read = (): string | undefined => attempt(() => readFile(file));
  let seen = read();
  let isValid = true;
  return every(clock, REREAD_EVERY_MS, () => {
    const text = read();
    if (text === seen && (isValid || source.reread().usable === undefined)) return;
    seen = text;
    reload("file");
    // A mistake in the warm list does not count, because only a new text ends it.
    isValid = source.reread().usable !== undefined;
  });
}
