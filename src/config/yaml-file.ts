import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";

import { isMapping, type SettingPath } from "./sources.ts";

/** A YAML file of settings. It has no settings if it cannot be read. */
export type SettingsFile = ReturnType<typeof parseSettingsFile>;

/**
 * Reads and parses a settings file. Never throws: `problems` lists what is wrong.
 * @param role what names the file, for messages
 */
export function readSettingsFile(
  path: string,
  role: string,
  readFile: (path: string) => string,
): SettingsFile {
  try {
    return parseSettingsFile(path, readFile(path));
  } catch (error) {
    const fault = `${role}: ${JSON.stringify(path)} cannot be read${codeOf(error)}; expected a YAML file of settings`;
    return { name: path, settings: {}, problems: [fault], lineOf: () => undefined };
  }
}

/** @returns the code of a failed read, such as ` (ENOENT)`; empty if there is none */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
}

/** Parses a settings file. Never throws. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function parseSettingsFile(name: string, text: string) {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "silent" });
  /** The line of a setting, from 1; `undefined` if it is not in this file. */
  const lineOf = (path: SettingPath): number | undefined => {
    const parent = document.getIn(path.slice(0, -1), true);
    const pair = isMap(parent)
      ? parent.items.find(({ key }) => isScalar(key) && String(key.value) === path.at(-1))
      : undefined;
    const node = pair?.key ?? document.getIn(path, true);
    return isNode(node) && node.range ? lines.linePos(node.range[0]).line : undefined;
  };
  // The parser's own texts quote the file, and may show a secret. So its codes, such as TAB_AS_INDENT, are the texts.
  const invalid = [...document.errors, ...document.warnings].map(
    ({ pos, code }) =>
      `${name}:${lines.linePos(pos[0]).line}: not valid YAML: ${code.toLowerCase().replaceAll("_", " ")}`,
  );
  const settings = invalid.length === 0 ? contentOf(document) : {};
  const problems = typeof settings === "string" ? [`${name}: ${settings}`] : invalid;
  return {
    name,
    settings: isMapping(settings) ? settings : {},
    /** Why the file cannot be read, one line for each problem. */
    problems,
    lineOf,
  };
}

/** @returns the settings, or why there are none */
function contentOf(document: Document): Record<string, unknown> | string {
  try {
    const settings: unknown = document.toJS() ?? {};
    return isMapping(settings) ? settings : 'expected settings, as in "server:" and below it "port: 8080"';
  } catch {
    return "not valid YAML: an alias (*name) has no anchor, or there are too many";
  }
}
