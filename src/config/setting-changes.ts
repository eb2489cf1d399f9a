/**
 * What differs between two sets of settings, as people write them. Pure.
 */
import { type Settings, settingsSchema } from "./config-schema.ts";
import { settingsOf } from "./setting-check.ts";
import { describeValue } from "./setting-faults.ts";
import { valueAt } from "./setting-path.ts";
import { isSecret } from "./setting-shapes.ts";

/** Settings that can be used. */
export interface ReadSettings {
  /** As they were read: numbers in milliseconds and bytes, under their written names. Holds secrets. */
  readonly settings: Settings;
  /** As they are written, all sources together. Holds secrets. */
  readonly written: unknown;
}

/** One setting; of a secret nothing is told but that it has changed. */
export interface SettingChange {
  /**
   * As in `cache.ttl.sold`; of an app `apps.ID.weight`, or `apps.ID` where it is new or gone; of a URL that is kept
   * warm `warm.FORMAT:QUERY`.
   */
  readonly path: string;
  readonly from?: string;
  readonly to?: string;
}

/** @returns every setting that means something else; `60m` and `1h` are the same */
export function changesBetween(before: ReadSettings, after: ReadSettings): SettingChange[] {
  return settingsOf(settingsSchema).flatMap(({ path, shape }): SettingChange[] => {
    const name = path.join(".");
    if (name === "apps") return appChanges(before.settings.apps, after.settings.apps);
    if (isSame(valueAt(before.settings, path), valueAt(after.settings, path))) return [];
    if (isSecret(shape)) return [{ path: name }];
    return [
      { path: name, from: show(valueAt(before.written, path)), to: show(valueAt(after.written, path)) },
    ];
  });
}

/** @returns `cache.ttl.sold: 1h → 2h`, and of a secret `upstream.privateKey: changed` */
export function describeChange({ path, from, to }: SettingChange): string {
  return from === undefined || to === undefined ? `${path}: changed` : `${path}: ${from} → ${to}`;
}

type App = Settings["apps"][number];

/** Apps are told apart by their ids, wherever in the list they stand. */
function appChanges(before: readonly App[], after: readonly App[]): SettingChange[] {
  const ids = [...new Set([...before, ...after].map(({ id }) => id))];
  return ids.flatMap((id): SettingChange[] => {
    const [old, now] = [before, after].map((apps) => apps.find((app) => app.id === id));
    const path = `apps.${id}`;
    if (old === undefined || now === undefined) return [{ path, from: show(old), to: show(now) }];
    return (["weight", "perDay", "priority", "mayForceRefresh"] as const)
      .filter((name) => old[name] !== now[name])
      .map((name) => ({ path: `${path}.${name}`, from: show(old[name]), to: show(now[name]) }));
  });
}

/** By what was read, which is plain data. */
function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function show(value: unknown): string {
  if (typeof value === "string") return describeValue(value).slice(1, -1);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : describeValue(value);
}

/** Settings that hold from the moment they are read again; a name covers all below it. */
const LIVE = [
  "apps",
  "budget.concurrency",
  "budget.images",
  "budget.limit",
  "budget.maxCoolOff",
  "budget.maxWait",
  "budget.mode",
  "budget.reserve",
  "cache",
  "log.level",
  "server.drainTimeout",
  "server.stopDelay",
  "upstream.privateKey",
  "warm",
];
/** What of those is laid out at the start: it cannot grow or shrink while it is in use. */
const LAID_OUT = ["cache.maxBytes", "cache.maxDiskBytes"];

/** @returns whether a setting can change while the process runs */
export function isLive(path: string): boolean {
  const isOf = (name: string): boolean => path === name || path.startsWith(`${name}.`);
  return LIVE.some(isOf) && !LAID_OUT.some(isOf);
}
