/** Prints rows under a title, columns aligned. */
export function printTable(
  title: string,
  header: readonly string[],
  rows: readonly (readonly string[])[],
): void {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  console.log(`\n${title}`);
  for (const row of all) {
    console.log(`  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`);
  }
}

export function ratio(value: number, base: number): string {
  return `${(value / base).toFixed(2)}x`;
}

export function micros(ms: number): string {
  return `${(ms * 1000).toFixed(1)} µs`;
}
