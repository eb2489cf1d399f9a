/** The settings that a running gateway can change, for the chart: a change of another one starts new pods. */
import { SETTINGS } from "../src/config/schema.ts";

/** @returns their paths as a list in YAML; a section in place of its settings if all of them can change */
export function reloadableSettings(): string {
  const paths = SETTINGS.filter(({ reloadable }) => reloadable === true).map(
    ({ path: [section = "", ...rest] }) => (isWhole(section) ? section : [section, ...rest].join(".")),
  );
  const head = "# Written by `npm run generate` from src/config/schema.ts.";
  return `${[head, ...[...new Set(paths)].map((path) => `- ${path}`)].join("\n")}\n`;
}

function isWhole(section: string): boolean {
  return SETTINGS.every(({ path, reloadable }) => path[0] !== section || reloadable === true);
}
