/** Line charts as SVG files in docs/performance. */
import { mkdirSync, writeFileSync } from "node:fs";

export interface Chart {
  readonly title: string;
  readonly x: { readonly name: string; readonly scale: "linear" | "log" };
  /** Its axis begins at 0. */
  readonly y: { readonly name: string };
  readonly lines: readonly {
    readonly name: string;
    readonly points: readonly (readonly [x: number, y: number])[];
  }[];
}

const DIRECTORY = new URL("../docs/performance/", import.meta.url);
const [WIDTH, HEIGHT] = [640, 320];
const MARGIN = { left: 70, right: 20, top: 40, bottom: 50 };
const COLOURS = ["#1f6feb", "#d1242f", "#1a7f37", "#9a6700"];

/** All charts of this run, by file name. */
const charts = new Map<string, Chart>();

/** Remembers a chart until the end of the run. */
export function lineChart(file: string, chart: Chart): void {
  charts.set(file, chart);
}

export function writeCharts(): void {
  mkdirSync(DIRECTORY, { recursive: true });
  for (const [file, chart] of charts) writeFileSync(new URL(file, DIRECTORY), svgOf(chart));
}

function svgOf({ title, x, y, lines }: Chart): string {
  const all = lines.flatMap(({ points }) => points);
  const xs = [...new Set(all.map(([value]) => value))].toSorted((a, b) => a - b);
  const top = ceiling(Math.max(...all.map(([, value]) => value)));
  const position = (value: number): number => (x.scale === "log" ? Math.log10(value) : value);
  const [from, to] = [position(xs[0] ?? 0), position(xs.at(-1) ?? 1)];
  const left = (value: number): number =>
    MARGIN.left + ((position(value) - from) / (to - from)) * (WIDTH - MARGIN.left - MARGIN.right);
  const down = (value: number): number =>
    HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const text = (at: readonly [number, number], anchor: string, words: string): string =>
    `<text x="${round(at[0])}" y="${round(at[1])}" text-anchor="${anchor}">${words}</text>`;

  const marks = x.scale === "log" ? xs : [0, 0.25, 0.5, 0.75, 1].map((part) => from + (to - from) * part);
  const parts = [
    text([WIDTH / 2, 22], "middle", title),
    ...marks.map((mark) => text([left(mark), HEIGHT - MARGIN.bottom + 18], "middle", shown(mark))),
    text([WIDTH / 2, HEIGHT - 10], "middle", x.name),
    ...[0, 0.5, 1].flatMap((part) => [
      `<path d="M${MARGIN.left} ${round(down(top * part))}H${WIDTH - MARGIN.right}" stroke="#d0d7de"/>`,
      text(
        [MARGIN.left - 8, down(top * part) + 4],
        "end",
        `${shown(top * part)} ${part === 1 ? y.name : ""}`,
      ),
    ]),
    ...lines.flatMap(({ name, points }, index) => {
      const colour = COLOURS[index % COLOURS.length] ?? "black";
      const path = points.map(([px, py]) => `${round(left(px))} ${round(down(py))}`).join("L");
      return [
        `<path d="M${path}" fill="none" stroke="${colour}" stroke-width="2"/>`,
        ...points.map(
          ([px, py]) => `<circle cx="${round(left(px))}" cy="${round(down(py))}" r="3" fill="${colour}"/>`,
        ),
        `<text x="${MARGIN.left + 10}" y="${MARGIN.top + 14 + 16 * index}" fill="${colour}">${name}</text>`,
      ];
    }),
  ];
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`;
  return [head, `<rect width="100%" height="100%" fill="white"/>`, ...parts, "</svg>", ""].join("\n");
}

/** @returns the next larger number that is easy to read */
function ceiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

function shown(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
