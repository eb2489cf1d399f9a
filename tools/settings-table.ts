import { settingsSchema } from "../src/config/config-schema.ts";
import { VARIABLES } from "../src/config/environment.ts";
import { settingsOf } from "../src/config/setting-check.ts";
import { formatPath, valueAt } from "../src/config/setting-path.ts";
import { metaOf } from "../src/config/setting-shapes.ts";
import { parseSettingsFile, type SettingsFile } from "../src/config/settings-file.ts";

/** A setting as the documentation shows it. */
export interface DocumentedSetting {
  readonly path: readonly string[];
  /** The comment above it in the file of defaults, without the variable's name. */
  readonly meaning: string;
  /** What is accepted, in words. */
  readonly expected: string;
  readonly default: unknown;
  readonly required: boolean;
  readonly variable: string | undefined;
}

/**
 * Puts together what is known of each setting: its shape from the schema, its default and meaning
 * from the file of defaults, its environment variable from the table of those.
 * @param text the file of defaults
 */
export function documentedSettings(text: string): DocumentedSetting[] {
  const file = parseSettingsFile("config/default.yaml", text);
  return settingsOf(settingsSchema).map(({ path, shape }) => {
    const meta = metaOf(shape);
    const variable = VARIABLES.find(
      ({ path: own, kind }) =>
        formatPath(own) === formatPath(path) ||
        (kind === "pairs" && formatPath(path).startsWith(`${formatPath(own)}.`)),
    );
    return {
      path,
      meaning: commentAbove(text, file, path).replace(/ \([A-Z_]+(, [^()]*)?\)$/, ""),
      expected: meta?.expected ?? "",
      default: valueAt(file.settings, path),
      required: meta?.required ?? false,
      variable: variable?.name,
    };
  });
}

/** @returns the comment on the line before a setting, `""` where there is none */
function commentAbove(text: string, file: SettingsFile, path: readonly string[]): string {
  const line = file.lineOf(path);
  const above = line === undefined ? "" : (text.split("\n")[line - 2] ?? "");
  return /^\s*# (.*)$/.exec(above)?.[1] ?? "";
}
