/** Turns a JSON line of the log into a readable line for a terminal. */
import { styleText } from "node:util";

/** The fields that lead the line of a request or an upstream call, in this order. */
const LEADING = ["method", "query", "status", "outcome", "durationMs"] as const;

/**
 * @param json a line of the log
 * @returns a readable line: time of day, level, message, then the fields as `name=value`. The stack of an error follows on
 *   lines of its own.
 */
export function readableLine(json: string): string {
  const { time, level, msg, ...fields } = fieldsIn(json);
  const head = [timeOfDay(text(time ?? "")), coloured(text(level ?? "")), text(msg ?? "")];
  const leading = LEADING.flatMap((name) => {
    const value = fields[name];
    if (value === undefined || !isAccess(msg)) return [];
    delete fields[name];
    return [name === "durationMs" ? `${text(value)} ms` : text(value)];
  });
  const stacks: string[] = [];
  const rest = Object.entries(fields).flatMap(([name, value]) => {
    const stack: unknown = typeof value === "object" && value !== null && Reflect.get(value, "stack");
    if (typeof stack !== "string") return [`${name}=${text(value)}`];
    stacks.push(stack);
    return [];
  });
  return `${[[...head, ...leading, ...rest].join(" "), ...stacks].join("\n")}\n`;
}

function isAccess(msg: unknown): boolean {
  return msg === "request" || msg === "upstream call";
}

function fieldsIn(json: string): Record<string, unknown> {
  const parsed: unknown = JSON.parse(json);
  return typeof parsed === "object" && parsed !== null ? { ...parsed } : {};
}

function timeOfDay(time: string): string {
  return /T(.*)Z$/.exec(time)?.[1] ?? time;
}

function text(value: unknown): string {
  return typeof value === "string" ? visible(value) : JSON.stringify(value);
}

/** Escapes control characters, so that a caller's text cannot move the cursor or change colours. */
function visible(value: string): string {
  return value.replaceAll(/\p{Cc}/gu, (character) => JSON.stringify(character).slice(1, -1));
}

/** Colours warnings and errors. `NO_COLOR` turns colours off. */
function coloured(level: string): string {
  const shown = level.padEnd(5);
  if (level === "warn") return styleText("yellow", shown, { stream: process.stdout });
  return level === "error" || level === "fatal" ? styleText("red", shown, { stream: process.stdout }) : shown;
}
