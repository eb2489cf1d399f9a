/**
 * The settings in force, and what a reload changes. Code that needs a reloadable setting calls `current()` at each use,
 * because a reload does not change values that were read before.
 */
import type { Config } from "./config.ts";
import type { SettingsSource, UsableSettings } from "./load.ts";
import { describeValue, isSecretAt } from "./report.ts";
import { type Settings, SETTINGS } from "./schema.ts";
import { leavesOf } from "./sources.ts";

export interface LiveSettings {
  readonly current: () => Config;
  /** Makes a value from the settings. After a reload, the next read makes it again. */
  readonly derive: <T>(make: (config: Config) => T) => () => T;
  /**
   * Reads the settings again, and applies all of them or none.
   * @param readAlso reads more from valid settings; a mistake there prevents the reload
   */
  readonly reload: <Also extends AlsoRead>(readAlso: (settings: Settings) => Also) => Reload<Also>;
}

interface AlsoRead {
  /** One line for each problem. */
  readonly problems: readonly string[];
}

/** The outcome of a reload, with the new settings if they apply. */
export type Reload<Also> =
  | (AppliedReload & { readonly usable: UsableSettings; readonly also: Also })
  | FailedReload;

/** The outcome of a reload, for operators. */
export type ReloadOutcome = AppliedReload | FailedReload;

interface AppliedReload {
  readonly kind: "applied";
  readonly changes: readonly SettingChange[];
}

type FailedReload =
  /** Nothing has changed. One line for each problem. */
  | { readonly kind: "invalid"; readonly problems: readonly string[] }
  /** Nothing has changed. One line for each setting that needs a restart. */
  | { readonly kind: "restart-needed"; readonly problems: readonly string[] };

/**
 * @param restartFor returns further reasons, in words, why valid settings need a restart
 */
export function createLiveSettings(
  { first, reread }: SettingsSource,
  restartFor: (current: Config, next: Config) => readonly string[],
): LiveSettings {
  let inForce: UsableSettings = first;
  const current = (): Config => inForce.config;

  return {
    current,
    derive(make) {
      let source = current();
      let made = make(source);
      return () => {
        if (source === current()) return made;
        source = current();
        made = make(source);
        return made;
      };
    },
    reload(readAlso) {
      const { usable: next, problems: mistakes } = reread();
      if (next === undefined) return { kind: "invalid", problems: mistakes };
      const also = readAlso(next.settings);
      if (also.problems.length > 0) return { kind: "invalid", problems: also.problems };
      const changes = changesBetween(inForce, next);
      const problems = [
        ...changes.filter(({ isReloadable }) => !isReloadable).map(describeChange),
        ...restartFor(current(), next.config),
      ];
      if (problems.length > 0) return { kind: "restart-needed", problems };
      inForce = next;
      return { kind: "applied", usable: next, changes, also };
    },
  };
}

/** One changed setting. `from` and `to` are absent for a secret. */
export interface SettingChange {
  /** `cache.ttl.sold`; for an app `apps.ID.weight`; for a URL in the warm list `warm.FORMAT:QUERY`. */
  readonly path: string;
  readonly from?: string;
  readonly to?: string;
}

type Change = SettingChange & { readonly isReloadable: boolean };

/** @returns every setting that is written differently */
export function changesBetween(before: UsableSettings, after: UsableSettings): Change[] {
  const [old, now] = [before, after].map(
    ({ written }) => new Map(leavesOf(written).map(([path, value]) => [path.join("."), { path, value }])),
  );
  return [...new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])])].flatMap((name): Change[] => {
    const [from, to] = [old?.get(name), now?.get(name)];
    if (JSON.stringify(from?.value) === JSON.stringify(to?.value)) return [];
    const isReloadable = SETTINGS.some(
      (setting) => setting.reloadable === true && `${name}.`.startsWith(`${setting.name}.`),
    );
    const path = name.replace("apps.listed.", "apps.");
    if (isSecretAt(from?.path ?? to?.path ?? [])) return [{ path, isReloadable }];
    return [{ path, from: show(from?.value), to: show(to?.value), isReloadable }];
  });
}

/** @returns for example `cache.ttl.sold: 1h → 2h`, or for a secret `redis.url: changed` */
export function describeChange({ path, from, to }: SettingChange): string {
  return from === undefined || to === undefined ? `${path}: changed` : `${path}: ${from} → ${to}`;
}

function show(value: unknown): string {
  if (typeof value === "string") return describeValue(value).slice(1, -1);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : describeValue(value);
}
