// Shows a status in the panels of the page.
import { createChart } from "./chart.js";
import { byId, h, setText, showItems, showTable } from "./dom.js";
import { resourceText, verdictOf } from "./verdict.js";
import * as words from "./words.js";

const { ago, causeText, clockTime, count, duration, many, percent, rate, since, soon } = words;
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** @param explain explains a query that was chosen in a table */
export function createPanels(explain) {
  const showChart = createChart(byId("chart"), byId("legend"));
  return function show(status) {
    showVerdict(status);
    showScope(status);
    showTiles(status);
    showChart(status);
    showBudget(status);
    showApps(status);
    showSaved(status);
    showUpstream(status);
    showQueries(status, explain);
    showProblems(status, explain);
  };
}

function showVerdict(status) {
  showItems(byId("verdict"), verdictOf(status), {
    key: ({ id }) => id,
    make: () => h("li", {}, h("span", { className: "mark" }), h("span")),
    update(item, { level, text }) {
      item.className = level;
      setText(item.firstChild, { bad: "Problem", warn: "Watch", good: "Good" }[level]);
      setText(item.lastChild, text);
    },
  });
}

function showScope({ scope, processes, sinceAt, at }) {
  const hosts = processes.map(({ host }) => host).join(", ");
  const extent = {
    alone: "one process",
    all: many(processes.length, "process").replace(/ss(?=s$)/, "sse"),
    "cut-off": "one process only",
  }[scope];
  setText(
    byId("scope"),
    `${extent} · ${hosts} · version ${processes[0].version} · counted since ${clockTime(sinceAt)}`,
  );
  byId("scope").title = processes
    .map(({ host, id, startedAt }) => `${host} (${id}) running for ${duration(at - startedAt)}`)
    .join("\n");
}

function showTiles(status) {
  const { perSecond, outcomes, saved, budget, upstream, queue, at } = status;
  const requests = sum(Object.values(outcomes));
  const savedCount = sum(Object.values(saved));
  const tightest = budget.api.windows.reduce((a, b) =>
    b.remaining / b.limit < a.remaining / a.limit ? b : a,
  );
  const waiting = sum(Object.values(queue).flatMap((of) => Object.values(of)));
  const { predictedWaitMs, waitsFor } = budget.api;
  const tiles = [
    {
      name: "Requests per second",
      value: rate(sum(Object.values(perSecond))),
      note: `${count(requests)} in the last hour`,
    },
    {
      name: "Needed no call",
      value: requests === 0 ? "–" : percent(savedCount / requests),
      note: requests === 0 ? "no requests yet" : `${count(savedCount)} of ${count(requests)} requests`,
    },
    {
      name: `Budget left, ${tightest.name}`,
      value: count(tightest.remaining),
      note: `of ${count(tightest.limit)}${backText(tightest, 1)}`,
      level: tightest.remaining < 1 ? "bad" : tightest.emptyInMs === null ? "" : "warn",
    },
    { name: "Property API", ...upstreamTile(upstream, budget, at) },
    {
      name: "Waiting calls",
      value: count(waiting),
      note:
        predictedWaitMs > 0
          ? `${duration(predictedWaitMs)} for ${words.waitText(waitsFor)}`
          : "a call can be sent now",
      level: waiting > 0 && predictedWaitMs >= 1_000 ? "warn" : "",
    },
  ];
  showItems(byId("tiles"), tiles, {
    key: ({ name }) => name.replace(/,.*/, ""),
    make: () => h("div", {}, h("dt"), h("dd", { className: "value" }), h("dd", { className: "note" })),
    update(tile, { name, value, note, level = "" }) {
      tile.className = level;
      [name, value, note].forEach((text, index) => setText(tile.children[index], text));
    },
  });
}

function upstreamTile(upstream, budget, at) {
  const circuits = Object.values(budget).flatMap((of) => of.circuits);
  const states = Object.values(upstream);
  const failing = states.flatMap(({ failingSince }) => failingSince ?? []);
  const from = Math.min(...circuits.map((circuit) => circuit.since), ...failing);
  if (Number.isFinite(from)) {
    return {
      value: circuits.length > 0 ? "Paused" : "Failing",
      note: `since ${since(from, at)}`,
      level: "bad",
    };
  }
  const last = Math.max(0, ...states.map(({ lastAnswerAt }) => lastAnswerAt ?? 0));
  if (last === 0) return { value: "Not called", note: "no calls yet" };
  return { value: "Healthy", note: `last answer ${ago(last, at)}`, level: "good" };
}

function backText({ comesBack }, most) {
  const parts = comesBack.slice(0, most).map(({ calls, inMs }) => `${count(calls)} back in ${soon(inMs)}`);
  return parts.length === 0 ? "" : ` · ${parts.join(", ")}`;
}

function forecastText({ load, emptyInMs, remaining }) {
  if (remaining < 1) return "";
  if (emptyInMs !== null) return `At this rate it is spent in ${soon(emptyInMs)}.`;
  return load === 0 ? "No calls in the last minutes." : `At this rate it settles at ${percent(load)}.`;
}

function showBudget({ budget }) {
  setText(byId("budget-mode"), words.modeText(budget.api.mode));
  const windows = Object.entries(budget).flatMap(([origin, of]) =>
    of.windows.map((window) => ({ origin, ...window })),
  );
  showItems(byId("budget"), windows, {
    key: ({ origin, name }) => `${origin} ${name}`,
    make: () =>
      h(
        "div",
        { className: "window" },
        h("h3"),
        h("p", { className: "left" }),
        h(
          "div",
          { className: "bar", role: "img" },
          h("i", { className: "spent" }),
          h("i", { className: "held" }),
        ),
        h("p", { className: "note" }),
      ),
    update(element, window) {
      const { origin, name, limit, spent, remaining, heldBack, emptyInMs } = window;
      const [title, left, bar, note] = element.children;
      element.dataset.level = remaining < 1 ? "bad" : emptyInMs === null ? "" : "warn";
      setText(title, `${origin === "images" ? "Images, " : ""}${name}`);
      setText(left, `${count(remaining)} of ${count(limit)} left`);
      bar.children[0].style.width = `${(100 * spent) / limit}%`;
      bar.children[1].style.width = `${(100 * heldBack) / limit}%`;
      bar.setAttribute(
        "aria-label",
        `${count(spent)} spent, ${count(heldBack)} kept for other replicas, of ${count(limit)}`,
      );
      const held = heldBack > 0 ? `${count(heldBack)} kept for other replicas` : "";
      setText(note, [backText(window, 3).slice(3), held, forecastText(window)].filter(Boolean).join(" · "));
    },
  });
  const { predictedWaitMs, waitsFor } = budget.api;
  setText(
    byId("queue"),
    predictedWaitMs === 0
      ? "A call can be sent now."
      : `A new call waits ${duration(predictedWaitMs)} for ${words.waitText(waitsFor)}.`,
  );
}

function showApps({ apps, budget }) {
  const windows = budget.api.windows.map(({ name }) => name);
  const columns = [
    {
      title: "App",
      text: ({ app }) => app,
      note: ({ isListed, weight }) => `${isListed ? "listed" : "not listed"}, weight ${weight}`,
    },
    { title: "Requests", kind: "number", text: ({ requests }) => count(requests) },
    {
      title: "Saved",
      kind: "number",
      text: ({ requests, saved }) => (requests === 0 ? "–" : percent(saved / requests)),
    },
    {
      title: "Refused",
      kind: "number",
      text: ({ refused }) => count(refused),
      level: ({ refused }) => (refused > 0 ? "bad" : ""),
    },
    ...windows.map((name) => ({
      title: `Calls ${name}`,
      kind: "number",
      text: ({ spent }) => count(spent[name] ?? 0),
      note: ({ shares }) => shareText(shares.find((share) => share.name === name)),
    })),
  ];
  showTable(byId("apps"), apps, {
    columns,
    key: ({ app }) => app,
    empty: "No app has sent a request in the last hour.",
  });
}

function shareText(share) {
  return share ? `share ${count(Math.floor(share.limit))}, ${count(Math.floor(share.remaining))} left` : "";
}

function showSaved({ saved, outcomes }) {
  const requests = sum(Object.values(outcomes));
  const rows = Object.entries(saved)
    .map(([reason, number]) => ({ reason, number }))
    .sort((a, b) => b.number - a.number);
  const columns = [
    {
      title: "How",
      text: ({ reason }) => words.savingText(reason)[0],
      note: ({ reason }) => words.savingText(reason)[1],
    },
    {
      title: "Requests",
      kind: "number",
      text: ({ number }) => count(number),
      note: ({ number }) => percent(number / Math.max(1, requests)),
    },
  ];
  showTable(byId("saved"), rows, { columns, key: ({ reason }) => reason, empty: "Nothing yet." });
}

function showUpstream({ upstream, budget, at }) {
  const rows = Object.entries(upstream).map(([name, state]) => ({ name, ...state }));
  const columns = [
    { title: "Resource", text: ({ name }) => resourceText(name) },
    {
      title: "State",
      text: ({ failingSince }) => (failingSince === null ? "answers" : "fails"),
      note: ({ failingSince }) => (failingSince === null ? "" : `since ${since(failingSince, at)}`),
      level: ({ failingSince }) => (failingSince === null ? "good" : "bad"),
    },
    { title: "Calls", kind: "number", text: ({ calls }) => count(calls) },
    {
      title: "Failed",
      kind: "number",
      text: ({ failed }) => count(failed),
      level: ({ failed }) => (failed > 0 ? "bad" : ""),
      note: ({ lastFailure, lastFailureAt }) =>
        lastFailure === null ? "" : `${lastFailure}, ${ago(lastFailureAt, at)}`,
    },
    {
      title: "Mean time",
      kind: "number",
      text: ({ calls, failed, answeredMs }) =>
        calls > failed ? duration(answeredMs / (calls - failed)) : "–",
    },
  ];
  showTable(byId("upstream"), rows, {
    columns,
    key: ({ name }) => name,
    empty: "No calls in the last hour.",
  });
  const circuits = Object.entries(budget).flatMap(([origin, of]) =>
    of.circuits.map((circuit) => ({ origin, ...circuit })),
  );
  showItems(byId("circuits"), circuits, {
    key: ({ origin, scope }) => `${origin} ${scope}`,
    make: () => h("li"),
    update: (item, { origin, scope, state, cause, since: from, until }) =>
      setText(
        item,
        `Circuit ${origin}/${scope === "origin" ? "all" : scope} ${state} since ${since(from, at)}: ${causeText(cause)}; ${state === "open" ? `next try in ${soon(until - at)}` : "the next call is a test"}`,
      ),
  });
}

function showQueries({ asked, slowest, at }, explain) {
  const onQuery = (item) => explain(item.key ?? item.query);
  showTable(byId("asked"), asked.slice(0, 10), {
    columns: [
      { title: "Query", kind: "query", text: ({ key }) => key },
      { title: "Requests", kind: "number", text: (item) => count(item.count) },
    ],
    key: ({ key }) => key,
    empty: "No searches in the last hour.",
    onQuery,
  });
  showTable(byId("slowest"), slowest, {
    columns: [
      {
        title: "Query",
        kind: "query",
        text: ({ query }) => query,
        note: (item) => `${item.app}, ${ago(item.at, at)}`,
      },
      { title: "Took", kind: "number", text: ({ durationMs }) => duration(durationMs) },
    ],
    key: ({ query }) => query,
    empty: "Nothing was fetched in the last hour.",
    onQuery,
  });
}

const FROM = { caller: "sent to callers", upstream: "call to the API", gateway: "warning in the log" };

function showProblems({ problems }, explain) {
  const columns = [
    { title: "What", text: ({ what }) => what, note: ({ from }) => FROM[from] ?? from },
    { title: "Times", kind: "number", text: (item) => count(item.count) },
    {
      title: "Last",
      text: ({ lastAt }) => clockTime(lastAt),
      note: ({ firstAt }) => `first ${clockTime(firstAt)}`,
    },
    { title: "Example", kind: "query", text: ({ query }) => query ?? "", note: ({ app }) => app ?? "" },
  ];
  showTable(byId("problems"), problems, {
    columns,
    key: ({ from, what }) => `${from} ${what}`,
    empty: "No problems in the last hour.",
    onQuery: ({ query }) => query && explain(query),
  });
}
