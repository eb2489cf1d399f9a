// The chart: requests per second by outcome, stacked.
import uPlot from "./uplot.js";

import { h, setText, showItems } from "./dom.js";
import { rate } from "./words.js";

/** Groups of outcomes that an operator need not distinguish, from the bottom of the stack to its top. */
export const GROUPS = [
  { name: "Cached", colour: "--cached", outcomes: ["hit"] },
  { name: "Stale", colour: "--stale", outcomes: ["stale", "updating"] },
  { name: "From the API", colour: "--fetched", outcomes: ["miss", "collapsed", "bypass"] },
  { name: "Refused", colour: "--refused", outcomes: ["refused"] },
  { name: "Failed", colour: "--failed", outcomes: ["failed", "abandoned"] },
];
/** The time axis has at least this many points. It grows to the whole period, so that early points are not tiny. */
const FEWEST_POINTS = 24;
const HEIGHT = 220;

/** @returns the values of each group over time, and the times in seconds */
function groupsOf({ stepMs, lastStep, counts }) {
  const recorded = Object.values(counts).map((values) => values.length);
  const points = Math.max(FEWEST_POINTS, ...recorded);
  const times = Array.from({ length: points }, (_, at) => ((lastStep - points + 1 + at) * stepMs) / 1000);
  const valuesOf = ({ outcomes }) =>
    times.map((_, at) =>
      outcomes.reduce((sum, outcome) => {
        const values = counts[outcome] ?? [];
        return sum + (values[values.length - points + at] ?? 0) / (stepMs / 1000);
      }, 0),
    );
  return { times, groups: GROUPS.map(valuesOf) };
}

/** Each series is the sum of its group and those below it. The highest is drawn first, so the series look stacked. */
function stacked(groups, length) {
  const sums = [];
  let below = Array.from({ length }, () => 0);
  for (const values of groups) {
    below = values.map((value, at) => value + below[at]);
    sums.unshift(below);
  }
  return sums;
}

function timeOfDay(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

function optionsOf(place, onCursor) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: `12px ${style.fontFamily}`,
  };
  const series = GROUPS.toReversed().map(({ name, colour: property }) => ({
    label: name,
    width: 0,
    fill: colour(property),
    points: { show: false },
  }));
  return {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { y: { range: (_, __, highest) => [0, Math.max(1, highest * 1.1)] } },
    axes: [
      { ...axis, size: 30, incrs: [60, 120, 300], values: (_, times) => times.map((at) => timeOfDay(at)) },
      { ...axis, size: 44, values: (_, values) => values.map(rate) },
    ],
    series: [{}, ...series],
    hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx)] },
  };
}

function showLegend(legend, numbers) {
  showItems(legend, GROUPS, {
    key: ({ name }) => name,
    make: ({ name, colour }) =>
      h("li", {}, h("i", { className: colour.slice(2) }), h("span", { textContent: name }), h("b")),
    update: (item, group) => setText(item.lastChild, rate(numbers[GROUPS.indexOf(group)])),
  });
}

/** @returns a function that shows the series of a status */
export function createChart(place, legend) {
  let plot;
  let shown;

  /** The legend shows the numbers at the cursor, or the current ones. */
  const onCursor = (at) =>
    showLegend(
      legend,
      shown.groups.map((values, group) => values[at ?? -1] ?? shown.now[group]),
    );

  function draw() {
    plot.setData([shown.times, ...stacked(shown.groups, shown.times.length)]);
    onCursor(plot.cursor.idx);
  }
  /** Also replaces the plot when the colour scheme changes, because a plot keeps its colours. */
  function create() {
    plot?.destroy();
    plot = new uPlot(optionsOf(place, onCursor), undefined, place);
    draw();
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && create());
  new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);

  return ({ series, perSecond }) => {
    const now = GROUPS.map(({ outcomes }) =>
      outcomes.reduce((sum, outcome) => sum + (perSecond[outcome] ?? 0), 0),
    );
    shown = { ...groupsOf(series), now };
    if (plot) draw();
    else create();
    const parts = GROUPS.map(({ name }, at) => `${name} ${rate(now[at])}`);
    place.setAttribute(
      "aria-label",
      `Requests per second by outcome over the last minutes. Now: ${parts.join(", ")}.`,
    );
  };
}
