/**
 * What a reload changes.
 */
import type { UsableSettings } from "./load.ts";
import { isSecret } from "./report.ts";
import { SETTINGS } from "./settings.ts";
import { leavesOf } from "./sources.ts";
import { describeValue } from "./validate.ts";

/** One changed setting. `from` and `to` are absent for a secret. */
interface SettingChange {
  /** `cache.ttl.sold`; for an app `apps.ID.weight`. */
  readonly path: string;
  readonly from?: string;
  readonly to?: string;
  readonly isReloadable: boolean;
}

/** The outcome of a reload, for operators. */
export type ReloadOutcome =
  | { readonly kind: "applied"; readonly changes: readonly SettingChange[] }
  /** Nothing has changed. One line for each mistake, or for each setting that needs a restart. */
  | { readonly kind: "invalid" | "restart-needed"; readonly problems: readonly string[] };

/** @returns every setting that is written differently */
export function changesBetween(before: UsableSettings, after: UsableSettings): SettingChange[] {
  const [old, now] = [before, after].map(
    ({ sources }) => new Map(leavesOf(sources.merged).map(([path, value]) => [path.join("."), value])),
  );
  return [...new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])])].flatMap((name): SettingChange[] => {
    const [from, to] = [old?.get(name), now?.get(name)];
    if (JSON.stringify(from) === JSON.stringify(to)) return [];
    const isReloadable = SETTINGS.some(
      (setting) => setting.reloadable === true && `${name}.`.startsWith(`${setting.name}.`),
    );
    const path = name.replace("apps.listed.", "apps.");
    if (isSecret(name)) return [{ path, isReloadable }];
    return [{ path, from: show(from), to: show(to), isReloadable }];
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
