/** Reads the constants that a test or a bench changes from its settings text, such as `upstream: { retryDelay: 1ms }`. */
import { parseDocument } from "yaml";

import { CONSTANTS, type Constants } from "../../src/config/timeouts-and-limits.ts";
import { parseQuantity } from "../../src/config/settings/units.ts";

/** @returns the settings that remain, and all constants. The names of constants may omit the unit. */
export function withConstants(text: string): { settings: string; constants: Constants } {
  const document = parseDocument(text);
  const constants: Record<string, Record<string, number>> = structuredClone(CONSTANTS);
  let hasConstants = false;
  for (const [section, values] of Object.entries(constants)) {
    for (const key of Object.keys(values)) {
      const path = [key, key.replace(/(Ms|Bytes)$/, "")]
        .map((name) => [section, name])
        .find((at) => document.hasIn(at));
      if (path === undefined) continue;
      const written = String(document.getIn(path));
      values[key] = /[A-Za-z]$/.test(written) ? parseQuantity(written) : Number(written);
      document.deleteIn(path);
      hasConstants = true;
    }
    if (hasConstants && JSON.stringify(document.get(section)) === "{}") document.delete(section);
  }
  // The text stays as it is where possible, so that messages name its lines.
  return { settings: hasConstants ? String(document) : text, constants: { ...CONSTANTS, ...constants } };
}
