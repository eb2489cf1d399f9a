// The chart: requests per second by kind, stacked.
import uPlot from "./uplot.js";

import { byId, h, show } from "./dom.js";
import { rate } from "./format.js";

/** The kinds of requests, from the bottom of the stack to its top. Callers' own mistakes are not shown. */
const KINDS = {
  cached: "Cached",
  stale: "Stale",
  fetched: "Fetched",
  refused: "Refused (budget)",
  failed: "Failed",
};
const NAMES = Object.keys(KINDS);
/** The time axis has at least this many points. It grows to the whole period, so that early points are not tiny. */
const FEWEST_POINTS = 24;
const HEIGHT = 170;

/** @returns the times in seconds, and the requests per second of each kind */
function pointsOf({ stepMs, lastStep, counts }) {
  const points = Math.max(FEWEST_POINTS, ...Object.values(counts).map((values) => values.length));
  const times = Array.from({ length: points }, (_, at) => ((lastStep - points + 1 + at) * stepMs) / 1000);
  const rates = NAMES.map((name) => {
    const values = counts[name] ?? [];
    return times.map((_, at) => (values[values.length - points + at] ?? 0) / (stepMs / 1000));
  });
  return { times, rates };
}

/** Each series is the sum of its kind and those below it. The highest is drawn first, so the series look stacked. */
function stacked({ times, rates }) {
  let below = times.map(() => 0);
  const sums = rates.map((values) => (below = values.map((value, at) => value + below[at])));
  return [times, ...sums.toReversed()];
}

function optionsOf(place, legend, onCursor) {
  const styleOf = getComputedStyle;
  const axis = {
    stroke: styleOf(byId("scope")).color,
    grid: { stroke: styleOf(place.parentElement).borderTopColor, width: 1 },
    ticks: { show: false },
    font: `12px ${styleOf(place).fontFamily}`,
  };
  const fillOf = (name) => styleOf(legend.querySelector(`.${name}`)).color;
  return {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { y: { range: (_, __, highest) => [0, Math.max(1, highest * 1.1)] } },
    axes: [
      {
        ...axis,
        size: 24,
        incrs: [60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400],
        values: (_, times) => times.map((at) => new Date(at * 1_000).toISOString().slice(11, 16)),
      },
      { ...axis, size: 44, values: (_, values) => values.map(rate) },
    ],
    series: [
      {},
      ...NAMES.toReversed().map((name) => ({ width: 0, fill: fillOf(name), points: { show: false } })),
    ],
    hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx)] },
  };
}

/** @returns a function that shows the series of a status */
export function createChart(place, legend) {
  let plot;
  let shown;

  /** The legend shows the numbers at the cursor, or the current ones. */
  function onCursor(at) {
    const items = NAMES.map((name, index) => {
      const perSecond = shown.rates[index][at ?? -1] ?? shown.perSecond[name];
      return h("li", h(`i.${name}`, "■"), ` ${KINDS[name]} `, h("b", rate(perSecond)));
    });
    show(legend, ...items);
  }
  /** Also replaces the plot when the colour scheme changes, because a plot keeps its colours. */
  function create() {
    plot?.destroy();
    plot = new uPlot(optionsOf(place, legend, onCursor), stacked(shown), place);
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && create());
  new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);

  return ({ series, perSecond }) => {
    shown = { ...pointsOf(series), perSecond };
    onCursor(plot?.cursor.idx);
    if (plot) plot.setData(stacked(shown));
    else create();
    const parts = NAMES.map((name) => `${KINDS[name]} ${rate(perSecond[name])}`);
    place.setAttribute("aria-label", `Requests per second by kind. Now: ${parts.join(", ")}.`);
  };
}
