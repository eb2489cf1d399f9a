// Shows a status in the panels of the page.
import { createChart } from "./chart.js";
import { byId, h, setText, showItems, showRows, showTable } from "./dom.js";
import { explainQuery } from "./explain.js";
import { ago, clockTime, count, percent, rate, soon, sum } from "./words.js";

/** Apps that are shown before "more" is pressed. */
const FEW_APPS = 8;
const FEW = 10;
const MANY = 30;

const showChart = createChart(byId("chart"), byId("legend"));
let latest;
byId("more-apps").addEventListener("click", ({ target }) => {
  target.ariaExpanded = String(target.ariaExpanded !== "true");
  showApps(latest);
});

export function show(status) {
  latest = status;
  showSentences(status);
  showApps(status);
  showTiles(status);
  showChart(status);
  showBudget(status);
  showLists(status);
}

const MARKS = { bad: "Problem", warn: "Watch", good: "Good" };

function showSentences({ sentences, scope, processes, sinceAt }) {
  showItems(byId("sentences"), sentences, {
    key: ({ text }) => text.replaceAll(/\d+/g, ""),
    make: () => h("li", {}, h("b"), h("span")),
    update(item, { level, text }) {
      item.className = level;
      setText(item.firstChild, MARKS[level]);
      setText(item.lastChild, text);
    },
  });
  const from = scope === "all" ? `${processes.length} processes` : "one process";
  const hosts = [...new Set(processes.map(({ host }) => host))].join(", ");
  const since = `counted since ${clockTime(sinceAt)} UTC`;
  setText(byId("scope"), `${from} · ${hosts} · version ${processes[0].version} · ${since}`);
}

const orNothing = (number) => (number === 0 ? "" : count(number));

function showApps({ apps, budget }) {
  const button = byId("more-apps");
  const isAll = button.ariaExpanded === "true";
  button.hidden = apps.length <= FEW_APPS;
  setText(button, isAll ? "Fewer" : `${apps.length - FEW_APPS} more`);
  const calls = budget.api.windows.map(({ name }) => [
    `Calls in ${name}`,
    "number",
    ({ spent }) => count(spent[name] ?? 0),
    ({ shares }) =>
      shares
        .filter((share) => share.name === name)
        .map(({ remaining }) => `${count(Math.floor(remaining))} left`)
        .join(""),
  ]);
  const columns = [
    ["App", "", ({ app }) => app, ({ isListed, weight }) => (isListed ? `weight ${weight}` : "not listed")],
    [
      "State",
      "",
      ({ state }) => state,
      ({ hurtSince }) => (hurtSince === null ? "" : `since ${clockTime(hurtSince)} UTC`),
      ({ harm }) => HARM_LEVELS[harm] ?? "",
    ],
    ["Refused", "number", ({ refused }) => orNothing(refused), undefined, () => "bad"],
    ["Failed", "number", ({ failed }) => orNothing(failed), ({ failures }) => named(failures), () => "bad"],
    ["Stale", "number", ({ stale }) => orNothing(stale)],
    ["Answered", "number", ({ cached, stale, fetched }) => count(cached + stale + fetched)],
    ["Own mistakes", "number", ({ mistakes }) => orNothing(mistakes)],
    ...calls,
  ];
  const shown = isAll ? apps : apps.slice(0, FEW_APPS);
  const empty = "No app has sent a request in the last hour.";
  showTable(byId("apps"), shown, { columns, key: ({ app }) => app, empty });
}

const HARM_LEVELS = { error: "bad", stale: "warn" };
/** @returns the causes of failed requests; with several, the number of each */
function named(failures) {
  const all = Object.entries(failures);
  return all.map(([name, number]) => (all.length > 1 ? `${count(number)} ${name}` : name)).join(", ");
}

function showTiles({ perSecond, requests, saved, freshness, budget, upstream, queue, at }) {
  const { mistakes, ...answered } = requests;
  const all = sum(Object.values(answered));
  const savedCount = sum(Object.values(saved));
  const tightest = budget.api.windows.reduce((a, b) =>
    b.remaining / b.limit < a.remaining / a.limit ? b : a,
  );
  const circuits = Object.values(budget).flatMap((of) => of.circuits);
  const states = Object.values(upstream);
  const isFailing = states.some(({ failingSince }) => failingSince !== null);
  const lastAnswerAt = Math.max(0, ...states.map((state) => state.lastAnswerAt ?? 0));
  const waiting = sum(Object.values(queue).flatMap((of) => Object.values(of)));
  const tiles = [
    ["Requests per second", rate(sum(Object.values(perSecond))), `${count(all + mistakes)} in the last hour`],
    [
      "Needed no call",
      all === 0 ? "–" : percent(savedCount / all),
      `${count(savedCount)} of ${count(all)} requests`,
    ],
    [
      "Out of date",
      freshness.expected === null ? "–" : percent(freshness.expected),
      freshnessNote(freshness),
    ],
    [
      "Calls left",
      count(tightest.remaining),
      `of ${count(tightest.limit)} in ${tightest.name}; ${count(waiting)} waiting`,
      tightest.remaining < 1 ? "bad" : "",
    ],
    [
      "Property API",
      circuits.length > 0 ? "Paused" : isFailing ? "Failing" : lastAnswerAt === 0 ? "Not called" : "Answers",
      lastAnswerAt === 0 ? "no answer yet" : `last answer ${ago(lastAnswerAt, at)}`,
      circuits.length > 0 || isFailing ? "bad" : "",
    ],
  ];
  showItems(byId("tiles"), tiles, {
    key: ([name]) => name,
    make: () => h("div", {}, h("dt"), h("dd", { className: "value" }), h("dd", { className: "note" })),
    update(tile, [name, value, note, level = ""]) {
      tile.className = level;
      [name, value, note].forEach((text, index) => setText(tile.children[index], text));
    },
  });
}

function freshnessNote({ expected, expectedFixed, callsForHalf, measured }) {
  if (expected === null) return "not known yet";
  const half = callsForHalf === null ? "" : `; half of it costs ${callsForHalf.toFixed(1)} times the calls`;
  const checked =
    measured === null ? "" : `; ${percent(measured.from)} to ${percent(measured.to)} in checked answers`;
  return `expected; ${percent(expectedFixed)} if lifetimes were fixed${half}${checked}`;
}

const MODES = {
  alone: "one process, no Redis",
  shared: "shared by all replicas",
  joining: "waiting for Redis",
  degraded: "only this process's own part can be spent",
};

function showBudget({ budget }) {
  setText(byId("budget-mode"), MODES[budget.api.mode] ?? budget.api.mode);
  const windows = Object.entries(budget).flatMap(([origin, of]) =>
    of.windows.map((window) => ({
      ...window,
      title: origin === "images" ? `Images, ${window.name}` : window.name,
    })),
  );
  const make = () =>
    h(
      "div",
      { className: "window" },
      h("h3"),
      h("p", { className: "left" }),
      h("meter", { optimum: 0 }),
      h("p", { className: "note" }),
    );
  showItems(byId("budget"), windows, {
    key: ({ title }) => title,
    make,
    update(element, { title, limit, spent, remaining, heldBack, comesBack, emptyInMs }) {
      const [heading, left, meter, note] = element.children;
      left.className = remaining < 1 ? "left bad" : "left";
      setText(heading, title);
      setText(left, `${count(remaining)} of ${count(limit)} left`);
      Object.assign(meter, {
        max: limit,
        low: limit * 0.9,
        value: spent,
        ariaLabel: `${count(spent)} of ${count(limit)} spent`,
      });
      const parts = [
        ...comesBack.map(({ calls, inMs }) => `${count(calls)} back in ${soon(inMs)}`),
        ...(heldBack > 0 ? [`${count(heldBack)} kept for other processes`] : []),
        ...(emptyInMs === null ? [] : [`spent in ${soon(emptyInMs)} at this rate`]),
      ];
      setText(note, parts.join(" · "));
    },
  });
}

const SAVINGS = {
  hit: "the answer was in the cache",
  collapsed: "it joined the call of another request",
  folded: "the page was cut from a cached block",
  past_end: "a cached block says that there are no more records",
};

function showLists({ upstream, saved, asked, slowest, problems }) {
  const resources = Object.entries(upstream).map(([name, state]) => ({ name, ...state }));
  showRows(byId("upstream"), resources, "No calls in the last hour.");
  const reasons = Object.entries(saved).sort(([, a], [, b]) => b - a);
  const savings = reasons.map(([reason, requests]) => ({ why: SAVINGS[reason] ?? reason, requests }));
  showRows(byId("saved"), savings, "No request was answered without a call yet.");
  showRows(byId("asked"), asked.slice(0, FEW), "No searches in the last hour.", explainQuery);
  showRows(byId("slowest"), slowest, "Nothing was fetched in the last hour.", explainQuery);
  showRows(byId("problems"), problems.slice(0, MANY), "No problems in the last hour.", explainQuery);
}
