// Shows a status in the panels of the page.
import { showChart } from "./chart.js";
import { byId, cell, h, number, show, showRows, showTable } from "./dom.js";
import { clockText, count, percent, rate, soon } from "./format.js";

/** Apps that are shown before "more" is pressed. */
const FEW_APPS = 8;
const FEW = 10;
const MANY = 30;

let latest;
byId("more-apps").addEventListener("click", ({ target }) => {
  target.ariaExpanded = String(target.ariaExpanded !== "true");
  showApps(latest);
});

export function showStatus(status) {
  latest = status;
  showSentences(status);
  showApps(status);
  show(byId("tiles"), ...tilesOf(status));
  showChart(status);
  showBudget(status);
  showLists(status);
}

const MARKS = { bad: "Problem", warn: "Watch", good: "Good" };

function showSentences({ sentences, scope, processes, sinceAt }) {
  const lines = sentences.map(({ level, text }) => h(`li.${level}`, h("b", MARKS[level]), h("span", text)));
  show(byId("sentences"), ...lines);
  const from = scope === "all" ? `${processes.length} processes` : "one process";
  const hosts = [...new Set(processes.map(({ host }) => host))].join(", ");
  const since = `counted since ${clockText(sinceAt)}`;
  show(byId("scope"), `${from} · ${hosts} · version ${processes[0].version} · ${since}`);
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const orNothing = (amount) => (amount === 0 ? "" : count(amount));
const HARM_LEVELS = { error: "bad", stale: "warn" };
const since = (at) => (at === null ? "" : `since ${clockText(at)}`);

function showApps({ apps, budget }) {
  const button = byId("more-apps");
  const isAll = button.ariaExpanded === "true";
  button.hidden = apps.length <= FEW_APPS;
  show(button, isAll ? "Fewer" : `${apps.length - FEW_APPS} more`);
  const callsIn = (name) => (app) => {
    const length = app.shares.find((one) => one.name === name)?.windowSeconds;
    // In a window of a day, `perDay` may leave less than the share.
    const left = app.shares.filter((one) => one.windowSeconds === length).map(({ remaining }) => remaining);
    return number(count(app.spent[name] ?? 0), left.length > 0 && `${count(Math.min(...left))} left`);
  };
  const columns = [
    ["App", ({ app, isListed, weight }) => cell(app, isListed ? `weight ${weight}` : "not listed")],
    ["State", ({ state, hurtSince, harm }) => cell(state, since(hurtSince), HARM_LEVELS[harm])],
    ["Refused", ({ refused }) => number(orNothing(refused), "", "bad")],
    ["Failed", ({ failed, failures }) => number(orNothing(failed), named(failures), "bad")],
    ["Stale", ({ stale }) => number(orNothing(stale))],
    ["Answered", ({ cached, stale, fetched }) => number(count(cached + stale + fetched))],
    ["Own mistakes", ({ mistakes }) => number(orNothing(mistakes))],
    ...budget.api.windows.map(({ name }) => [`Calls in ${name}`, callsIn(name)]),
  ];
  const shown = isAll ? apps : apps.slice(0, FEW_APPS);
  showTable(byId("apps"), columns, shown, "No app has sent a request in the last hour.");
}

/** @returns the causes of failed requests; with several, the number of each */
function named(failures) {
  const all = Object.entries(failures);
  return all.map(([name, times]) => (all.length > 1 ? `${count(times)} ${name}` : name)).join(", ");
}

/** @returns the window with the smallest part left */
const tightest = (windows) =>
  windows.reduce((a, b) => (b.remaining / b.limit < a.remaining / a.limit ? b : a));

function tilesOf({ perSecond, requests, saved, freshness, budget, upstream, queue, at }) {
  const { mistakes, ...answered } = requests;
  const all = sum(Object.values(answered));
  const savedCount = sum(Object.values(saved));
  const { remaining, limit, name } = tightest(budget.api.windows);
  const waiting = sum(Object.values(queue).flatMap((of) => Object.values(of)));
  const part = (ratio) => (Number.isFinite(ratio) ? percent(ratio) : "–");
  const level = remaining < 1 ? "bad" : "";
  const tiles = [
    ["Requests per second", rate(sum(Object.values(perSecond))), `${count(all + mistakes)} in the last hour`],
    ["Needed no call", part(savedCount / all), `${count(savedCount)} of ${count(all)} requests`],
    ["Out of date", part(freshness.expected), freshnessNote(freshness)],
    ["Calls left", count(remaining), `of ${count(limit)} in ${name}; ${count(waiting)} waiting`, level],
    ["Property API", ...apiState(budget, Object.values(upstream), at)],
  ];
  return tiles.map(([title, value, note, className = ""]) =>
    h("div", { className }, h("dt", title), h("dd.value", value), h("dd.note", note)),
  );
}

/** @returns its state, its last answer, and the level */
function apiState(budget, resources, at) {
  const lastAt = Math.max(0, ...resources.map(({ lastAnswerAt }) => lastAnswerAt ?? 0));
  const note = lastAt === 0 ? "no answer yet" : `last answer ${soon(at - lastAt)} ago`;
  if (Object.values(budget).some(({ circuits }) => circuits.length > 0)) return ["Paused", note, "bad"];
  if (resources.some(({ failingSince }) => failingSince !== null)) return ["Failing", note, "bad"];
  return [lastAt === 0 ? "Not called" : "Answers", note];
}

function freshnessNote({ expected, expectedFixed, callsForHalf, measured }) {
  if (expected === null) return "not known yet";
  const notes = [
    "expected",
    `${percent(expectedFixed)} if lifetimes were fixed`,
    callsForHalf !== null && `half of it costs ${callsForHalf.toFixed(1)} times the calls`,
    measured !== null && `${percent(measured.from)} to ${percent(measured.to)} in checked answers`,
  ];
  return notes.filter(Boolean).join("; ");
}

const MODES = {
  alone: "one process, no Redis",
  shared: "shared by all replicas",
  joining: "waiting for Redis",
  degraded: "only this process's own part is counted",
};

function showBudget({ budget: { api, images } }) {
  show(byId("budget-mode"), MODES[api.mode] ?? api.mode);
  const windows = [
    ...api.windows.map((window) => windowOf(window.name, window)),
    ...images.windows.map((window) => windowOf(`Images, ${window.name}`, window)),
  ];
  show(byId("budget"), ...windows);
}

function windowOf(title, { limit, spent, remaining, heldBack, comesBack, emptyInMs }) {
  const notes = [
    ...comesBack.map(({ calls, inMs }) => `${count(calls)} back in ${soon(inMs)}`),
    heldBack > 0 && `${count(heldBack)} kept for other processes`,
    emptyInMs !== null && `spent in ${soon(emptyInMs)} at this rate`,
  ];
  const ariaLabel = `${count(spent)} of ${count(limit)} spent`;
  const left = `${count(remaining)} of ${count(limit)} left`;
  return h(
    "div.window",
    h("p", h("b", title), ": ", h("span", { className: remaining < 1 ? "bad" : "" }, left)),
    h("meter", { optimum: 0, max: limit, low: limit * 0.9, value: spent, ariaLabel }),
    h("p.note", notes.filter(Boolean).join(" · ")),
  );
}

const SAVINGS = {
  hit: "the answer was in the cache",
  collapsed: "it joined the call of another request",
  folded: "the page was cut from a cached block",
  past_end: "a cached block says that there are no more records",
};

/** The folded lists: title, text without rows, and rows. */
const LISTS = {
  upstream: [
    "Property API",
    "No calls in the last hour.",
    ({ upstream }) => Object.entries(upstream).map(([name, state]) => ({ name, ...state })),
  ],
  saved: [
    "Saved calls",
    "No request was answered without a call yet.",
    ({ saved }) =>
      Object.entries(saved).map(([reason, requests]) => ({ why: SAVINGS[reason] ?? reason, requests })),
  ],
  asked: ["Most requested", "No searches in the last hour.", ({ asked }) => asked.slice(0, FEW)],
  slowest: ["Slowest", "Nothing was fetched in the last hour.", ({ slowest }) => slowest],
  problems: ["Recent problems", "No problems in the last hour.", ({ problems }) => problems.slice(0, MANY)],
};
for (const [id, [title]] of Object.entries(LISTS)) {
  const scroll = h("div.scroll", { tabIndex: 0, role: "group", ariaLabel: title }, h("table", { id }));
  byId("folded").append(h("details", h("summary", title), scroll));
}

function showLists(status) {
  for (const [id, [, empty, rowsOf]] of Object.entries(LISTS)) showRows(byId(id), rowsOf(status), empty);
}
