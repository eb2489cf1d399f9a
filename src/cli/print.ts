/** The output of commands. One printer shows any JSON: texts as lines, objects as names and values, lists as tables. */
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

/** The parts of an answer that are shown: a title and a value each. A title may be empty. */
export type Section = readonly [title: string, value: unknown];

export function printSections(sections: readonly Section[]): void {
  const texts = sections.flatMap(([title, value]) => {
    const text = textOf(value);
    return text === "" ? [] : [title === "" ? text : `${title}\n${text}`];
  });
  print(texts.join("\n\n"));
}

function textOf(value: unknown): string {
  if (!Array.isArray(value)) return isObject(value) ? fields(value) : valueText("", value);
  const rows = value.filter(isObject);
  return rows.length === 0 ? value.map((line) => valueText("", line)).join("\n") : table(rows);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fields(of: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(of).filter(([, value]) => value !== undefined);
  const width = Math.max(0, ...entries.map(([name]) => titleOf(name).length));
  return entries
    .map(([name, value]) => `${titleOf(name).padEnd(width)}  ${valueText(name, value)}`)
    .join("\n");
}

/** @returns lines of aligned columns; columns that contain only numbers are aligned to the right */
function table(rows: readonly Readonly<Record<string, unknown>>[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = names.map((name) => {
    const texts = [titleOf(name), ...rows.map((row) => valueText(name, row[name]))];
    const width = Math.max(...texts.map((text) => text.length));
    const isNumeric = rows.every((row) => typeof row[name] === "number");
    return texts.map((text) => (isNumeric ? text.padStart(width) : text.padEnd(width)));
  });
  const lines = [0, ...rows.keys().map((at) => at + 1)];
  return lines
    .map((at) =>
      columns
        .map((column) => column[at])
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** @returns for example `calls per hour` for `callsPerHour`, and `wait` for `waitMs` */
function titleOf(name: string): string {
  return name
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
  if (Array.isArray(value)) return value.map((one) => valueText("", one)).join(", ") || "-";
  if (isObject(value)) {
    const parts = Object.entries(value).map(([key, one]) => `${titleOf(key)} ${valueText(key, one)}`);
    return parts.join(", ") || "-";
  }
  // Replaces control characters, which could change what the terminal shows.
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.replaceAll(/(?!\n)\p{Cc}/gu, "?");
}
