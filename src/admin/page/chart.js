// The chart: requests per second by kind, stacked.
import uPlot from "./uplot.js";

import { byId } from "./dom.js";
import { rate } from "./format.js";

/** The kinds of requests, from the bottom of the stack to its top. Callers' own mistakes are not shown. */
const KINDS = [
  { name: "cached", label: "Cached", fill: "#3584e4" },
  { name: "stale", label: "Stale", fill: "#d48c00" },
  { name: "fetched", label: "Fetched", fill: "#1fa97a" },
  { name: "refused", label: "Refused (budget)", fill: "#8274dd" },
  { name: "failed", label: "Failed", fill: "#e5534f" },
];
/** uPlot draws the first series first, so the highest one comes first. */
const TOP_DOWN = KINDS.toReversed();
/** The time axis has at least this many points. It grows to the whole period, so that early points are not tiny. */
const FEWEST_POINTS = 24;
const HEIGHT = 195;

const place = byId("chart");
let plot;
let shown;

/** @returns the times in seconds, and the requests per second of each kind */
function pointsOf({ stepMs, lastStep, counts }) {
  const points = Math.max(FEWEST_POINTS, ...Object.values(counts).map((values) => values.length));
  const times = Array.from({ length: points }, (_, at) => ((lastStep - points + 1 + at) * stepMs) / 1000);
  const ratesOf = (values = []) =>
    times.map((_, at) => (values[values.length - points + at] ?? 0) / (stepMs / 1000));
  return { times, rates: Object.fromEntries(KINDS.map(({ name }) => [name, ratesOf(counts[name])])) };
}

/** Each series is the sum of its kind and those below it, so that the series look stacked. */
function stacked({ times, rates }) {
  let below = times.map(() => 0);
  const sums = KINDS.map(({ name }) => (below = rates[name].map((value, at) => value + below[at])));
  return [times, ...sums.toReversed()];
}

const timeText = (at) => new Date(at * 1_000).toISOString().slice(11, 16);

function createPlot() {
  const axis = {
    stroke: () => getComputedStyle(byId("scope")).color,
    grid: { stroke: () => getComputedStyle(place.parentElement).borderTopColor, width: 1 },
    ticks: { show: false },
  };
  const incrs = [60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400];
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false }, points: { show: false } },
    scales: { y: { range: (_, __, highest) => [0, Math.max(1, highest * 1.1)] } },
    axes: [
      { ...axis, size: 24, incrs, values: (_, times) => times.map(timeText) },
      { ...axis, size: 44, values: (_, values) => values.map(String) },
    ],
    series: [
      { label: "UTC", value: (_, at) => (at === null ? "now" : timeText(at)) },
      // The legend shows the rates at the cursor, or the current ones.
      ...TOP_DOWN.map(({ name, ...kind }) => ({
        ...kind,
        width: 0,
        points: { show: false },
        value: (_, __, ___, at) => rate(shown.rates[name][at] ?? shown.perSecond[name]),
      })),
    ],
  };
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  return new uPlot(options, stacked(shown), place);
}

export function showChart({ series, perSecond }) {
  shown = { ...pointsOf(series), perSecond };
  plot ??= createPlot();
  plot.setData(stacked(shown));
  const parts = KINDS.map(({ name, label }) => `${label} ${rate(perSecond[name])}`);
  place.setAttribute("aria-label", `Requests per second by kind. Now: ${parts.join(", ")}.`);
}
