/** The output of commands: JSON for programs, tables and lines for people. */

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

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

type Cell = string | number | null | undefined;

/** @returns lines of aligned columns; columns that contain only numbers are aligned to the right */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) => head.map((_, column) => cell(row[column])));
  const widths = head.map((title, column) =>
    Math.max(title.length, ...texts.map((row) => row[column]?.length ?? 0)),
  );
  const isNumeric = head.map(
    (_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === "number"),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((text, column) => {
        const width = widths[column] ?? 0;
        return isNumeric[column] ? text.padStart(width) : text.padEnd(width);
      })
      .join("  ")
      .trimEnd();
  return [head, ...texts].map(line).join("\n");
}

/** Replaces control characters, which could change what the terminal shows. */
function cell(value: Cell): string {
  return String(value ?? "-").replaceAll(/\p{Cc}/gu, "?");
}

/** @returns a duration for people: `1 d 3 h`, `4 min 5 s`, `250 ms` */
export function inWords(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const units = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1_000],
  ] as const;
  const parts: string[] = [];
  let rest = ms;
  for (const [unit, length] of units) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count > 0) parts.push(`${count} ${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

/** @returns an instant to the second, in UTC */
export function instant(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** @returns when a circuit lets the next call through */
export function nextTry(state: string, inMs: number): string {
  return state === "open" ? `next try in ${inWords(Math.max(0, inMs))}` : "the next call is a test";
}

/** Which processes the counts of the admin port come from. */
export const SCOPES = {
  alone: "one process",
  all: "all processes",
  "cut-off": "one process only, because Redis does not answer",
} as const;

const WIDTH = 30;

export interface Progress {
  readonly show: (done: number) => void;
  readonly end: () => void;
}

/** @returns a progress bar. It draws nothing if the stream is not a terminal. */
export function createProgress(
  stream: { readonly isTTY?: boolean; readonly write: (text: string) => unknown },
  total: number,
): Progress {
  if (stream.isTTY !== true) return { show: () => {}, end: () => {} };
  return {
    show(done) {
      const filled = total === 0 ? WIDTH : Math.round((done / total) * WIDTH);
      stream.write(`\r[${"#".repeat(filled)}${".".repeat(WIDTH - filled)}] ${done}/${total}`);
    },
    end: () => void stream.write("\n"),
  };
}
