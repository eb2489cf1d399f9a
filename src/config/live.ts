/**
 * The settings in force, and what a reload changes. Code reads a setting that may change through `current()` at each
 * use; a value that it keeps stays the old one.
 */
import type { Config } from "./config.ts";
import type { SettingsSource, UsableSettings } from "./load.ts";
import { describeValue } from "./report.ts";
import { type ReadableSettings, type Settings, SETTINGS } from "./schema.ts";
import { isSecret, type Setting } from "./setting.ts";
import { valueAt } from "./sources.ts";

export interface LiveSettings {
  readonly current: () => Config;
  /** Something made from the settings. It is made again after they have changed. */
  readonly derive: <T>(make: (config: Config) => T) => () => T;
  /**
   * Reads the settings again, and applies all of them or none.
   * @param readAlso reads files that the settings name; a mistake there prevents the reload
   */
  readonly reload: <Also extends AlsoRead>(readAlso: (settings: ReadableSettings) => Also) => Reload<Also>;
}

interface AlsoRead {
  /** A line for each. */
  readonly problems: readonly string[];
}

/** The outcome of a reload, with the new settings if they apply. */
export type Reload<Also> = (AppliedReload & { readonly config: Config; readonly also: Also }) | FailedReload;

/** The outcome of a reload, as operators see it. */
export type ReloadOutcome = AppliedReload | FailedReload;

interface AppliedReload {
  readonly kind: "applied";
  readonly changes: readonly SettingChange[];
}

type FailedReload =
  /** Nothing has changed: a line for each problem. */
  | { readonly kind: "invalid"; readonly problems: readonly string[] }
  /** Nothing has changed: a line for each setting that needs a restart. */
  | { readonly kind: "restart-needed"; readonly problems: readonly string[] };

/**
 * @param restartFor further reasons, in words, why valid settings need a restart
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
      let of = current();
      let made = make(of);
      return () => {
        if (of === current()) return made;
        of = current();
        made = make(of);
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
   * `cache.ttl.sold`; for an app `apps.ID.weight`, or `apps.ID` if it is new or gone; for a URL that is kept warm
   * `warm.FORMAT:QUERY`.
   */
  readonly path: string;
  readonly from?: string;
  readonly to?: string;
}

const NEED_RESTART = SETTINGS.filter(({ reloadable = false }) => !reloadable);

/** @returns every setting with another value; `60m` and `1h` are the same value */
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

/** @returns `cache.ttl.sold: 1h → 2h`, and of a secret `upstream.privateKey: changed` */
export function describeChange({ path, from, to }: SettingChange): string {
  return from === undefined || to === undefined ? `${path}: changed` : `${path}: ${from} → ${to}`;
}

type App = Settings["apps"]["listed"][number];

/** An app is the same app wherever in the list it stands. */
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

/** Compares values, and secrets as they are written: a wrapped secret looks like any other. */
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
