/** Writes any answer of the admin port for people: sentences as lines, objects as names and values, lists as tables. */
import { titleOf, valueText } from "../admin/page/format.js";

export function print(line = ""): void {
  if (process.stdout.listenerCount("error") === 0) process.stdout.on("error", endQuietly);
  process.stdout.write(`${line}\n`);
}

/** Ends the command when its reader has read enough, as `head` does. */
function endQuietly(error: Error): void {
  if (Reflect.get(error, "code") !== "EPIPE") throw error;
  process.exit();
}

type Fields = Readonly<Record<string, unknown>>;

/** @param hidden names of members that are not shown, at any depth */
export function printAnswer(answer: unknown, hidden: readonly string[] = []): void {
  const visible: unknown = JSON.parse(
    JSON.stringify(answer, (name, value: unknown) => (hidden.includes(name) ? undefined : value)),
  );
  print(sections("", visible).join("\n\n"));
}

/** @returns the parts of a value: its sentences (`says`), its single values, and then its lists and objects, each with a title */
function sections(title: string, value: unknown): string[] {
  if (Array.isArray(value)) return [titled(title, table(value.filter(isObject)))];
  if (!isObject(value)) return [];
  const { says = [], ...members } = value;
  const entries = Object.entries(members).filter(([, one]) => !Array.isArray(one) || one.length > 0);
  const { single = [], parts = [] } = Object.groupBy(entries, ([, one]) =>
    isShort(one) ? "single" : "parts",
  );
  // An object of objects is a table, such as the state of each resource.
  const isTable =
    single.length === 0 && parts.every(([, one]) => isObject(one) && Object.values(one).every(isShort));
  if (title !== "" && parts.length > 0 && isTable)
    return [titled(title, table(parts.map(([name, one]) => ({ name, ...Object(one) }))))];
  const sentences = [says].flat().map((line) => text("", line));
  return [
    ...(sentences.length === 0 ? [] : [sentences.join("\n")]),
    ...(single.length === 0 ? [] : [titled(title, fields(single))]),
    ...parts.flatMap(([name, one]) => sections([title, titleText(name)].filter(Boolean).join(": "), one)),
  ];
}

const titled = (title: string, text: string): string => (title === "" ? text : `${title}\n${text}`);

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a value fits in one line. */
function isShort(value: unknown): boolean {
  return Array.isArray(value) ? !value.some(isObject) : !isObject(value);
}

function fields(entries: readonly (readonly [string, unknown])[]): string {
  const width = Math.max(...entries.map(([name]) => titleText(name).length));
  return entries.map(([name, value]) => `${titleText(name).padEnd(width)}  ${text(name, value)}`).join("\n");
}

/** @returns lines of aligned columns; columns that contain only numbers are aligned to the right */
function table(rows: readonly Fields[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = names.map((name) => {
    const texts = [titleText(name), ...rows.map((row) => text(name, row[name]))];
    const width = Math.max(...texts.map((text) => text.length));
    const isNumeric = rows.every((row) => typeof row[name] === "number");
    return texts.map((text) => (isNumeric ? text.padStart(width) : text.padEnd(width)));
  });
  const cells = [0, ...rows.keys().map((at) => at + 1)].map((at) => columns.map((column) => column[at]));
  return cells.map((line) => line.join("  ").trimEnd()).join("\n");
}

const TITLES: Readonly<Record<string, string>> = {
  sinceAt: "counted since",
  heldBack: "kept for others",
  comesBack: "free again",
  emptyInMs: "spent in",
};

function titleText(name: string): string {
  return titleOf(TITLES[name] ?? name);
}

function text(name: string, value: unknown): string {
  if (Array.isArray(value))
    return value.map((one) => text("", one)).join(value.some(isObject) ? "; " : ", ") || "-";
  if (isObject(value)) {
    const parts = Object.entries(value).map(([key, one]) => `${titleText(key)} ${text(key, one)}`);
    return parts.join(", ") || "-";
  }
  // Replaces control characters, which could change what the terminal shows.
  return valueText(name, value).replaceAll(/(?!\n)\p{Cc}/gu, "?");
}
