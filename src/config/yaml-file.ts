import { isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export type SettingsFile = ReturnType<typeof readSettingsFile>;

/**
 * Reads and parses a YAML file of settings. Never throws: `problems` lists what is wrong, and then there are no settings.
 * @param role what names the file, for messages
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function readSettingsFile(path: string, role: string, readFile: (path: string) => string) {
  const problems: string[] = [];
  let text = "";
  try {
    text = readFile(path);
  } catch (error) {
    problems.push(
      `${role}: ${JSON.stringify(path)} cannot be read${codeOf(error)}; expected a YAML file of settings`,
    );
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "silent" });
  // The parser's own texts quote the file, and may show a secret. So its codes, such as TAB_AS_INDENT, are the texts.
  for (const { pos, code } of [...document.errors, ...document.warnings]) {
    const fault = code.toLowerCase().replaceAll("_", " ");
    problems.push(`${path}:${lines.linePos(pos[0]).line}: not valid YAML: ${fault}`);
  }
  let settings: unknown = {};
  try {
    if (problems.length === 0) settings = document.toJS() ?? {};
    if (!isMapping(settings))
      problems.push(`${path}: expected settings, as in "server:" and below it "port: 8080"`);
  } catch {
    problems.push(`${path}: not valid YAML: an alias (*name) has no anchor, or there are too many`);
  }
  return {
    name: path,
    settings: isMapping(settings) ? settings : {},
    /** Why the file cannot be read, one line for each problem. */
    problems,
    /** @returns the line of a setting, from 1; `undefined` if it is not in this file */
    lineOf(setting: readonly (string | number)[]): number | undefined {
      const parent = document.getIn(setting.slice(0, -1), true);
      const pair = isMap(parent)
        ? parent.items.find(({ key }) => isScalar(key) && String(key.value) === setting.at(-1))
        : undefined;
      const node = pair?.key ?? document.getIn(setting, true);
      return isNode(node) && node.range ? lines.linePos(node.range[0]).line : undefined;
    },
  };
}

/** @returns the code of a failed read, such as ` (ENOENT)`; empty if there is none */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
}
