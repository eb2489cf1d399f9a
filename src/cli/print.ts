/** Writes any answer of the admin port for people: sentences as lines, objects as names and values, lists as tables. */
import { inWords } from "../admin/words.ts";

export function print(line = ""): void {
  endQuietly();
  process.stdout.write(`${line}\n`);
}

let isEnding = false;

/** Ends the command when its reader has read enough, as `head` does. */
function endQuietly(): void {
  if (isEnding) return;
  isEnding = true;
  process.stdout.on("error", (error) => {
    if (Reflect.get(error, "code") !== "EPIPE") throw error;
    process.exit();
  });
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
  if (Array.isArray(value)) {
    const rows = value.filter(isObject);
    return rows.length === 0 ? [] : [titled(title, table(rows))];
  }
  if (!isObject(value)) return [];
  const { says, ...members } = value;
  const entries = Object.entries(members).filter(([, one]) => !Array.isArray(one) || one.length > 0);
  // An object of objects is a table, such as the state of each resource.
  if (
    title !== "" &&
    entries.length > 0 &&
    entries.every(([, one]) => isObject(one) && Object.values(one).every(isShort))
  )
    return [titled(title, table(entries.map(([name, one]) => ({ name, ...Object(one) }))))];
  const single = entries.filter(([, one]) => isShort(one));
  const parts = entries.filter(([, one]) => !isShort(one));
  return [
    ...(says === undefined
      ? []
      : [
          [says]
            .flat()
            .map((line) => valueText("", line))
            .join("\n"),
        ]),
    ...(single.length === 0 ? [] : [titled(title, fields(single))]),
    ...parts.flatMap(([name, one]) => sections([title, titleOf(name)].filter(Boolean).join(": "), one)),
  ];
}

function titled(title: string, text: string): string {
  return title === "" ? text : `${title}\n${text}`;
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a value fits in one line. */
function isShort(value: unknown): boolean {
  return Array.isArray(value) ? !value.some(isObject) : !isObject(value);
}

function fields(entries: readonly (readonly [string, unknown])[]): string {
  const width = Math.max(...entries.map(([name]) => titleOf(name).length));
  return entries
    .map(([name, value]) => `${titleOf(name).padEnd(width)}  ${valueText(name, value)}`)
    .join("\n");
}

/** @returns lines of aligned columns; columns that contain only numbers are aligned to the right */
function table(rows: readonly Fields[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = names.map((name) => {
    const texts = [titleOf(name), ...rows.map((row) => valueText(name, row[name]))];
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

/** @returns for example `calls per hour` for `callsPerHour`, and `wait` for `waitMs` */
function titleOf(name: string): string {
  const title = TITLES[name] ?? name;
  return title
    .replace(/(?<=[a-z])Ms$/, "")
    .replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** A name tells what a number is: `waitMs` is a duration, `lastAt` and `since` are instants. */
function valueText(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number" && name.endsWith("Ms")) return inWords(value);
  if (typeof value === "number" && /^(?:at|since|until)$|(?:At|Since)$/.test(name))
    return `${new Date(value).toISOString().slice(0, 19)}Z`;
  if (Array.isArray(value))
    return value.map((one) => valueText("", one)).join(value.some(isObject) ? "; " : ", ") || "-";
  if (isObject(value)) {
    const parts = Object.entries(value).map(([key, one]) => `${titleOf(key)} ${valueText(key, one)}`);
    return parts.join(", ") || "-";
  }
  // Replaces control characters, which could change what the terminal shows.
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.replaceAll(/(?!\n)\p{Cc}/gu, "?");
}
