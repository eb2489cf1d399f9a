/** Tables of results. They are printed as Markdown, and remembered for docs/internals/performance.md. */

export interface Table {
  readonly title: string;
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** All tables of this run. */
export const tables: Table[] = [];

/** Prints and remembers a table with a title. */
export function printTable(
  title: string,
  header: readonly string[],
  rows: readonly (readonly string[])[],
): void {
  const table = { title, header, rows };
  tables.push(table);
  console.log(`\n${title}\n\n${markdownOf(table)}`);
}

export function markdownOf({ header, rows }: Table): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(3, ...all.map((row) => (row[column] ?? "").length)));
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (cells[column] ?? "").padEnd(width)).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [line(header), rule, ...rows.map(line)].join("\n");
}

export function ratio(value: number, base: number): string {
  return `${(value / base).toFixed(2)}x`;
}

export function micros(ms: number): string {
  return `${(ms * 1000).toFixed(1)} µs`;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** @param part 0.5 is the median */
export function quantile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * part)] ?? Number.NaN;
}
