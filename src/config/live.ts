/**
 * The settings in force, and what a reload changes. Code that needs a reloadable setting calls `current()` at each use,
 * because a reload does not change values that were read before.
 */
import type { Config } from "./config.ts";
import type { SettingsSource, UsableSettings } from "./load.ts";
import { describeValue } from "./report.ts";
import { type ReadableSettings, type Settings, SETTINGS } from "./schema.ts";
import { isSecret, type Setting } from "./setting.ts";
import { valueAt } from "./sources.ts";

export interface LiveSettings {
  readonly current: () => Config;
  /** Makes a value from the settings. After a reload, the next read makes it again. */
  readonly derive: <T>(make: (config: Config) => T) => () => T;
  /**
   * Reads the settings again, and applies all of them or none.
   * @param readAlso reads further files that the settings name; a mistake there prevents the reload
   */
  readonly reload: <Also extends AlsoRead>(readAlso: (settings: ReadableSettings) => Also) => Reload<Also>;
}

interface AlsoRead {
  /** One line for each problem. */
  readonly problems: readonly string[];
}

/** The outcome of a reload, with the new settings if they apply. */
export type Reload<Also> = (AppliedReload & { readonly config: Config; readonly also: Also }) | FailedReload;

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
      const examined = reread();
      const also = readAlso(examined.readable);
      const next = examined.usable;
      if (next === undefined || also.problems.length > 0)
        return { kind: "invalid", problems: [...examined.problems, ...also.problems] };
      const changes = changesBetween(inForce, next);
      const problems = [
        ...changesBetween(inForce, next, NEED_RESTART).map(describeChange),
        ...restartFor(current(), next.config),
      ];
      if (problems.length > 0) return { kind: "restart-needed", problems };
      inForce = next;
      return { kind: "applied", config: next.config, changes, also };
    },
  };
}

/** One changed setting. `from` and `to` are absent for a secret. */
export interface SettingChange {
  /**
   * `cache.ttl.sold`; for an app `apps.ID.weight`, or `apps.ID` if the app was added or removed; for a URL in the warm list
   * `warm.FORMAT:QUERY`.
   */
  readonly path: string;
  readonly from?: string;
  readonly to?: string;
}

const NEED_RESTART = SETTINGS.filter(({ reloadable = false }) => !reloadable);

/** @returns every setting whose value has changed; `60m` and `1h` are the same value */
export function changesBetween(
  before: UsableSettings,
  after: UsableSettings,
  among: readonly Setting[] = SETTINGS,
): SettingChange[] {
  return among.flatMap((setting): SettingChange[] => {
    const { name, path } = setting;
    if (name === "apps.listed") return appChanges(before.settings.apps.listed, after.settings.apps.listed);
    if (isSame(before, after, setting)) return [];
    if (isSecret(setting)) return [{ path: name }];
    return [
      { path: name, from: show(valueAt(before.written, path)), to: show(valueAt(after.written, path)) },
    ];
  });
}

/** @returns for example `cache.ttl.sold: 1h → 2h`, or for a secret `upstream.privateKey: changed` */
export function describeChange({ path, from, to }: SettingChange): string {
  return from === undefined || to === undefined ? `${path}: changed` : `${path}: ${from} → ${to}`;
}

type App = Settings["apps"]["listed"][number];

/** Compares apps by id. Their order in the list does not matter. */
function appChanges(before: readonly App[], after: readonly App[]): SettingChange[] {
  const ids = [...new Set([...before, ...after].map(({ id }) => id))];
  return ids.flatMap((id): SettingChange[] => {
    const [old, now] = [before, after].map((apps) => apps.find((app) => app.id === id));
    const path = `apps.${id}`;
    if (old === undefined || now === undefined) return [{ path, from: show(old), to: show(now) }];
    return Object.entries(now).flatMap(([name, to]): SettingChange[] => {
      const from = valueAt(old, [name]);
      return from === to ? [] : [{ path: `${path}.${name}`, from: show(from), to: show(to) }];
    });
  });
}

/** Compares values. Secrets are compared as they are written, because wrapped secrets all look the same. */
function isSame(before: UsableSettings, after: UsableSettings, setting: Setting): boolean {
  const [one, other] = [before, after].map(({ settings, written }) =>
    JSON.stringify(isSecret(setting) ? valueAt(written, setting.path) : valueAt(settings, setting.readPath)),
  );
  return one === other;
}

function show(value: unknown): string {
  if (typeof value === "string") return describeValue(value).slice(1, -1);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : describeValue(value);
}
