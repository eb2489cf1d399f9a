import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type YAMLError } from "yaml";

import { isMapping, type SettingPath, type SettingsLayer } from "./sources.ts";

/** A YAML file of settings. It has no settings if it cannot be read. */
export interface SettingsFile extends SettingsLayer {
  /** Why the file cannot be read, one line for each problem. */
  readonly problems: readonly string[];
}

/** Own texts for the parser's errors, because the parser's texts quote the file and may show a secret. */
const FAULTS: Partial<Record<YAMLError["code"], string>> = {
  BAD_INDENT: "the indentation is wrong",
  BLOCK_AS_IMPLICIT_KEY: "a mapping begins where a value was expected",
  DUPLICATE_KEY: "a key is given twice",
  MISSING_CHAR: "a quote, a bracket, a comma or a colon is missing",
  MULTIPLE_DOCS: "there is more than one document",
  TAB_AS_INDENT: "a tab is used to indent",
  TAG_RESOLVE_FAILED: "a tag (!…) is unknown",
};

/** Reads and parses a settings file. Never throws: `problems` lists what is wrong. */
export function readSettingsFile(
  path: string,
  role: string,
  readFile: (path: string) => string,
): SettingsFile {
  let text: string;
  try {
    text = readFile(path);
  } catch (error) {
    const fault = `${role}: ${JSON.stringify(path)} cannot be read${codeOf(error)}; expected a YAML file of settings`;
    return { name: path, settings: {}, problems: [fault], lineOf: () => undefined };
  }
  return parseSettingsFile(path, text);
}

/** @returns the code of a failed read, such as ` (ENOENT)`; empty if there is none */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
}

/** Parses a settings file. Never throws: `problems` lists what is wrong. */
export function parseSettingsFile(name: string, text: string): SettingsFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "silent" });
  const problems = [...document.errors, ...document.warnings].map(
    (error) =>
      `${name}:${lines.linePos(error.pos[0]).line}: not valid YAML: ${FAULTS[error.code] ?? error.code}`,
  );
  const root = document.contents;
  const lineOf = (path: SettingPath): number | undefined => {
    const offset = offsetOf(root, path);
    return offset === undefined ? undefined : lines.linePos(offset).line;
  };
  const settings = problems.length > 0 ? {} : toSettings(name, document, problems);
  return { name, settings, problems, lineOf };
}

function toSettings(
  name: string,
  document: { toJS(): unknown },
  problems: string[],
): Record<string, unknown> {
  try {
    const value = document.toJS() ?? {};
    if (isMapping(value)) return value;
    problems.push(`${name}: expected settings, as in "server:" and below it "port: 8080"`);
  } catch {
    problems.push(`${name}: not valid YAML: an alias (*name) has no anchor, or there are too many`);
  }
  return {};
}

/** @returns the offset in the text at which a setting begins: that of its key, or of its list item */
function offsetOf(root: Node | null, path: SettingPath): number | undefined {
  let node: unknown = root;
  let offset: number | undefined;
  for (const part of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === part);
      offset = isScalar(pair?.key) ? pair.key.range?.[0] : undefined;
      node = pair?.value;
    } else if (isSeq(node) && typeof part === "number") {
      node = node.items[part];
      offset = isScalar(node) || isMap(node) || isSeq(node) ? node.range?.[0] : undefined;
    } else return isAlias(node) ? offset : undefined;
    if (offset === undefined) return undefined;
  }
  return offset;
}
