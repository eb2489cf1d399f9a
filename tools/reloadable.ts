/** Lists the settings that a running gateway can change. In the chart, a change of any other setting starts new pods. */
import { SETTINGS } from "../src/config/settings.ts";

/** @returns the paths as a YAML list. If all settings of a section can change, the list has the section instead. */
export function reloadableSettings(): string {
  const paths = SETTINGS.filter(({ reloadable }) => reloadable === true).map(
    ({ path: [section = "", ...rest] }) => (isWhole(section) ? section : [section, ...rest].join(".")),
  );
  const head = "# Written by `npm run generate` from src/config/settings.ts.";
  return `${[head, ...[...new Set(paths)].map((path) => `- ${path}`)].join("\n")}\n`;
}

function isWhole(section: string): boolean {
  return SETTINGS.every(({ path, reloadable }) => path[0] !== section || reloadable === true);
}
