/**
 * The settings in force. What may change while the process runs is read through this at each use; who keeps
 * what it has read keeps the old one.
 */
import type { Config } from "./config.ts";
import type { ReadableSettings } from "./cross-check.ts";
import { changesBetween, describeChange, isLive, type SettingChange } from "./setting-changes.ts";
import { type SettingsSource, usableIn, type UsableSettings } from "./settings-source.ts";

export interface LiveSettings {
  readonly current: () => Config;
  /** A section that follows: what is read of it is what holds by then. */
  readonly section: <Name extends "server" | "cache" | "budget">(name: Name) => Config[Name];
  /** Something made of the settings, made anew when they have changed. */
  readonly derive: <T>(make: (config: Config) => T) => () => T;
  /**
   * Reads them again, and applies them as a whole or not at all.
   * @param readAlso reads what they name besides; what is wrong with that is wrong with them
   */
  readonly reload: <Also extends AlsoRead>(readAlso: (settings: ReadableSettings) => Also) => Reload<Also>;
}

interface AlsoRead {
  /** A line for each. */
  readonly problems: readonly string[];
}

/** The outcome of a reload, with the new settings where they were applied. */
export type Reload<Also> = (AppliedReload & { readonly config: Config; readonly also: Also }) | FailedReload;

/** The outcome of a reload, as operators see it. */
export type ReloadOutcome = AppliedReload | FailedReload;

interface AppliedReload {
  readonly kind: "applied";
  readonly changes: readonly SettingChange[];
}

type FailedReload =
  /** Nothing was changed: a line for each problem. */
  | { readonly kind: "invalid"; readonly problems: readonly string[] }
  /** Nothing was changed: a line for each setting that cannot change while the process runs. */
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
    section: (name) => following(() => current()[name]),
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
      const next = usableIn(examined);
      if (next === undefined || also.problems.length > 0)
        return { kind: "invalid", problems: [...examined.problems, ...also.problems] };
      const changes = changesBetween(inForce, next);
      const problems = [
        ...changes.filter(({ path }) => !isLive(path)).map(describeChange),
        ...restartFor(current(), next.config),
      ];
      if (problems.length > 0) return { kind: "restart-needed", problems };
      inForce = next;
      return { kind: "applied", config: next.config, changes, also };
    },
  };
}

/** An object with the members of what stands there now; their names are always the same. */
function following<T extends object>(current: () => T): T {
  const followed = { ...current() };
  for (const name of Object.keys(followed)) {
    Object.defineProperty(followed, name, {
      enumerable: true,
      get: (): unknown => Reflect.get(current(), name),
    });
  }
  return followed;
}
