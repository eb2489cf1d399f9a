/** The packages that run in production, from the lock file. */
import { readFileSync } from "node:fs";

export interface ProductionPackage {
  readonly name: string;
  readonly version: string;
  /** An SPDX expression. */
  readonly licence: string;
  /** Whether the gateway works without the package. That is true of the pinned Node and of OpenTelemetry. */
  readonly isOptional: boolean;
}

interface LockEntry {
  readonly version: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
}

/** @returns the packages, sorted by name, each version once */
export function productionPackages(): ProductionPackage[] {
  const { packages }: { packages: Record<string, LockEntry> } = JSON.parse(
    readFileSync(new URL("../package-lock.json", import.meta.url), "utf8"),
  );
  const all = Object.entries(packages).flatMap(([path, { version, license, dev, optional }]) => {
    const name = path.split("node_modules/").at(-1) ?? "";
    if (name === "" || dev) return [];
    return [{ name, version, licence: license ?? "unknown", isOptional: optional === true }];
  });
  const unique = new Map(all.map((one) => [`${one.name}@${one.version}`, one]));
  return [...unique.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
