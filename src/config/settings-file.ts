import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type YAMLError } from "yaml";

import { isMapping, type SettingPath } from "./setting-path.ts";

/** A YAML file of settings. */
export interface SettingsFile {
  readonly name: string;
  /** The settings as written; empty where the file cannot be read. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** One line each: why the file cannot be read. */
  readonly problems: readonly string[];
  /** The line (from 1) on which a setting stands, if it stands in this file. */
  lineOf(path: SettingPath): number | undefined;
}

/** In words, because the parser's own messages quote the file, and a secret with it. */
const FAULTS: Partial<Record<YAMLError["code"], string>> = {
  BAD_INDENT: "the indentation is wrong",
  BLOCK_AS_IMPLICIT_KEY: "a mapping begins where a value was expected",
  DUPLICATE_KEY: "a key is given twice",
  MISSING_CHAR: "a quote, a bracket, a comma or a colon is missing",
  MULTIPLE_DOCS: "there is more than one document",
  TAB_AS_INDENT: "a tab is used to indent",
  TAG_RESOLVE_FAILED: "a tag (!…) is unknown",
};

/** Parses a settings file. Never throws: what is wrong is in `problems`. */
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

/** Where in the text a setting begins: at its key, or at its place in a list. */
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
