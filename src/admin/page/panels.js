// Shows a status in the panels of the page.
import { createChart } from "./chart.js";
import { byId, h, setText, showItems, showTable } from "./dom.js";
import { ago, clockTime, count, duration, percent, rate, soon, sum } from "./words.js";

/** Apps that are shown before "more" is pressed. */
const FEW_APPS = 12;

/** @param explain explains a query that was chosen in a table */
export function createPanels(explain) {
  const showChart = createChart(byId("chart"), byId("legend"));
  let latest;
  byId("more-apps").addEventListener("click", ({ target }) => {
    target.ariaExpanded = String(target.ariaExpanded !== "true");
    showApps(latest);
  });
  return function show(status) {
    latest = status;
    showSentences(status);
    showTiles(status);
    showChart(status);
    showApps(status);
    showBudget(status);
    showUpstream(status);
    showLists(status, explain);
  };
}

const MARKS = { bad: "Problem", warn: "Watch", good: "Good" };

function showSentences({ sentences, scope, processes, sinceAt }) {
  showItems(byId("sentences"), sentences, {
    key: ({ text }) => text.replaceAll(/\d+/g, ""),
    make: () => h("li", {}, h("span", { className: "mark" }), h("span")),
    update(item, { level, text }) {
      item.className = level;
      setText(item.firstChild, MARKS[level]);
      setText(item.lastChild, text);
    },
  });
  const from = scope === "all" ? `${processes.length} processes` : "one process";
  const hosts = processes.map(({ host }) => host).join(", ");
  setText(
    byId("scope"),
    `${from} · ${hosts} · version ${processes[0].version} · counted since ${clockTime(sinceAt)}`,
  );
}

function showTiles({ perSecond, requests, saved, freshness, budget, upstream, queue, at }) {
  const { mistakes, ...answered } = requests;
  const all = sum(Object.values(answered));
  const savedCount = sum(Object.values(saved)) - (saved.refused ?? 0);
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
  return `expected share of cached answers; ${percent(expectedFixed)} with fixed lifetimes${half}${checked}`;
}

const orNothing = (number) => (number === 0 ? "" : count(number));
const named = (counts) =>
  Object.entries(counts)
    .map(([name, number]) => `${name} ${count(number)}`)
    .join(", ");

function showApps({ apps, budget }) {
  const button = byId("more-apps");
  const isAll = button.ariaExpanded === "true";
  button.hidden = apps.length <= FEW_APPS;
  setText(button, isAll ? "Fewer" : `${apps.length - FEW_APPS} more`);
  const calls = budget.api.windows.map(({ name }) => {
    const shareOf = ({ shares }) => shares.find((share) => share.name === name);
    const note = (app) =>
      shareOf(app) ? `${count(Math.floor(shareOf(app).remaining))} left of its share` : "";
    return [`Calls in ${name}`, "number", ({ spent }) => count(spent[name] ?? 0), note];
  });
  showTable(byId("apps"), isAll ? apps : apps.slice(0, FEW_APPS), {
    columns: [
      [
        "App",
        "",
        ({ app }) => app,
        ({ isListed, weight }) => `${isListed ? "listed" : "not listed"}, weight ${weight}`,
      ],
      ["Refused", "number", ({ refused }) => orNothing(refused), undefined, () => "bad"],
      ["Failed", "number", ({ failed }) => orNothing(failed), ({ failures }) => named(failures), () => "bad"],
      ["Answered", "number", ({ cached, stale, fetched }) => count(cached + stale + fetched)],
      ["Stale", "number", ({ stale }) => orNothing(stale)],
      ["Own mistakes", "number", ({ mistakes }) => orNothing(mistakes)],
      ...calls,
    ],
    empty: "No app has sent a request in the last hour.",
  });
}

const MODES = {
  alone: "one process, no Redis",
  shared: "shared by all replicas",
  joining: "waiting for Redis",
  degraded: "Redis does not answer: this process spends only its own part",
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
      h("meter", { min: 0 }),
      h("p", { className: "note" }),
    );
  showItems(byId("budget"), windows, {
    key: ({ title }) => title,
    make,
    update(element, { title, limit, spent, remaining, heldBack, comesBack, emptyInMs }) {
      const [heading, left, meter, note] = element.children;
      element.dataset.level = remaining < 1 ? "bad" : "";
      setText(heading, title);
      setText(left, `${count(remaining)} of ${count(limit)} left`);
      Object.assign(meter, {
        max: limit,
        value: spent,
        ariaLabel: `${count(spent)} of ${count(limit)} spent`,
      });
      const parts = [
        ...comesBack.map(({ calls, inMs }) => `${count(calls)} back in ${soon(inMs)}`),
        ...(heldBack > 0 ? [`${count(heldBack)} kept for other replicas`] : []),
        ...(emptyInMs === null ? [] : [`spent in ${soon(emptyInMs)} at this rate`]),
      ];
      setText(note, parts.join(" · "));
    },
  });
}

function showUpstream({ upstream, at }) {
  const rows = Object.entries(upstream).map(([name, state]) => ({ name, ...state }));
  const isBad = ({ failingSince }) => (failingSince === null ? "good" : "bad");
  showTable(byId("upstream"), rows, {
    columns: [
      ["Resource", "", ({ name }) => name],
      [
        "State",
        "",
        ({ failingSince }) => (failingSince === null ? "answers" : `fails since ${clockTime(failingSince)}`),
        undefined,
        isBad,
      ],
      ["Calls", "number", ({ calls }) => count(calls)],
      [
        "Failed",
        "number",
        ({ failed }) => count(failed),
        ({ lastFailure, lastFailureAt }) =>
          lastFailure === null ? "" : `${lastFailure}, ${ago(lastFailureAt, at)}`,
      ],
      ["Mean time", "number", ({ meanMs }) => (meanMs === null ? "–" : duration(meanMs))],
    ],
    empty: "No calls in the last hour.",
  });
}

const SAVINGS = {
  hit: "the answer was in the cache",
  collapsed: "it joined the call of another request",
  folded: "the page was cut from a cached block",
  past_end: "a cached block says that there are no more records",
  refused: "the request had a mistake",
};

function showLists({ saved, asked, slowest, problems, at }, onQuery) {
  const reasons = Object.entries(saved).sort(([, a], [, b]) => b - a);
  showTable(byId("saved"), reasons, {
    columns: [
      ["Why", "", ([reason]) => SAVINGS[reason] ?? reason],
      ["Requests", "number", ([, number]) => count(number)],
    ],
    empty: "None yet.",
  });
  showTable(byId("asked"), asked.slice(0, 10), {
    columns: [
      ["Query", "query", ({ query }) => query],
      ["Requests", "number", (item) => count(item.count)],
    ],
    empty: "No searches in the last hour.",
    onQuery,
  });
  showTable(byId("slowest"), slowest, {
    columns: [
      ["Query", "query", ({ query }) => query],
      [
        "Took",
        "number",
        ({ durationMs }) => duration(durationMs),
        (item) => `${item.app}, ${ago(item.at, at)}`,
      ],
    ],
    empty: "Nothing was fetched in the last hour.",
    onQuery,
  });
  showTable(byId("problems"), problems, {
    columns: [
      ["What", "", ({ what }) => what, ({ from }) => `from the ${from}`],
      ["Times", "number", (item) => count(item.count)],
      ["Last", "", ({ lastAt }) => clockTime(lastAt), ({ firstAt }) => `first ${clockTime(firstAt)}`],
      ["Example", "query", ({ query }) => query ?? "", ({ app }) => app ?? ""],
    ],
    empty: "No problems in the last hour.",
    onQuery,
  });
}
