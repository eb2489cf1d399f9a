// Explains a URL, and purges answers.
import { readPasted } from "./curl.js";
import { byId, h, setText, showTable } from "./dom.js";
import { get, post } from "./port.js";
import { clockTime, count, duration, many, waitText } from "./words.js";

const NEXT = {
  hit: "is answered from the cache",
  update: "gets the stale answer, which is refreshed in the background",
  fetch: "is fetched from the property API",
};

/** @returns a function that explains a canonical query */
export function createExplain() {
  const form = byId("explain-form");
  const purge = createPurge();
  let shown;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void explain();
  });
  byId("url").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    form.requestSubmit();
  });

  async function explain() {
    const pasted = readPasted(byId("url").value);
    if (pasted.app) byId("app").value = pasted.app;
    const asked = { url: pasted.url, format: pasted.format };
    const place = byId("explanation");
    shown = asked;
    place.replaceChildren(h("p", { className: "loading", textContent: "Looking…" }));
    try {
      const [entry, quote, history] = await Promise.all([
        get("cache/entry", asked),
        get("quote", { ...asked, app: byId("app").value.trim() }),
        get("cache/history", asked),
      ]);
      if (shown === asked)
        place.replaceChildren(
          ...explanationOf(entry, quote, history, () =>
            purge({ url: asked.url, ...(asked.format && { format: asked.format }) }, entry.query, explain),
          ),
        );
    } catch (error) {
      if (shown === asked)
        place.replaceChildren(
          h("p", { className: "message bad", role: "alert", textContent: error.message }),
        );
    }
  }

  return (query) => {
    byId("url").value = `/${query}`;
    byId("app").value = "";
    byId("explain").scrollIntoView({ block: "start" });
    byId("url").focus();
    void explain();
  };
}

function explanationOf(entry, quote, history, onPurge) {
  const facts = [
    ["Canonical query", entry.query],
    ...(entry.cutFrom ? [["Cut from", entry.cutFrom]] : []),
    ["Key", entry.key],
    ["Cached", cachedText(entry)],
    ["A request now", requestText(entry, quote)],
    [
      "Asked",
      history.asked > 0 ? `${many(history.asked, "time")} in the last hour` : "not often in the last hour",
    ],
  ];
  const list = h("dl", { className: "facts" });
  for (const [name, text] of facts)
    list.append(h("dt", { textContent: name }), h("dd", { textContent: text }));
  const button = h("button", { type: "button", className: "danger", textContent: "Purge this answer…" });
  button.addEventListener("click", onPurge);
  return [list, button, h("h3", { textContent: "Why recent requests were not hits" }), historyTable(history)];
}

function cachedText({ entry, why }) {
  if (entry === null) return why === "not stored" ? "no" : `no (${why})`;
  const { tier, status, ageSeconds, freshForSeconds, bodyBytes } = entry;
  const left =
    freshForSeconds > 0
      ? `fresh for ${duration(freshForSeconds * 1000)}`
      : `expired ${duration(-freshForSeconds * 1000)} ago`;
  const state = why === "purged" ? "purged" : left;
  return `in ${tier}, ${ageSeconds < 1 ? "less than a second" : duration(ageSeconds * 1000)} old, ${state}; status ${status}, ${count(bodyBytes)} bytes`;
}

function requestText({ next }, { upstreamCalls, predictedWaitMs, waitsFor, refusal, app, appIs }) {
  const forApp = `for the app ${app} (${appIs})`;
  const wait =
    predictedWaitMs === 0 ? "no wait" : `a wait of ${duration(predictedWaitMs)} for ${waitText(waitsFor)}`;
  if (refusal !== null) return `is refused ${forApp}: ${refusal}. A call would have ${wait}.`;
  const calls = upstreamCalls === 0 ? "It costs no call" : "It costs one call";
  return `${NEXT[next] ?? next}. ${calls} and ${wait}, ${forApp}.`;
}

function historyTable({ requests }) {
  const table = h("table", { id: "history" }, h("thead"), h("tbody"));
  showTable(table, requests, {
    columns: [
      { title: "At", text: ({ at }) => clockTime(at) },
      { title: "App", text: ({ app }) => app },
      {
        title: "Outcome",
        text: ({ outcome }) => outcome,
        note: ({ status, durationMs }) => `${status}, ${duration(durationMs)}`,
      },
      { title: "Why", text: ({ why }) => why },
    ],
    key: ({ at, app }) => `${at} ${app}`,
    empty: "This process remembers no request for this URL that was not a hit.",
  });
  return h("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "Recent requests" }, table);
}

/** @returns a function that asks for a confirmation, and purges */
function createPurge() {
  const dialog = byId("purge-dialog");
  const message = byId("purge-message");
  let confirmed = () => {};

  byId("purge-cancel").addEventListener("click", () => dialog.close());
  byId("purge-confirm").addEventListener("click", () => {
    dialog.close();
    confirmed();
  });
  const scope = byId("purge-scope");
  const number = byId("purge-number");
  scope.addEventListener("change", () => {
    const isTag = scope.value.startsWith("tag:");
    byId("purge-number-field").hidden = !isTag;
    number.required = isTag;
  });
  byId("purge-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [kind, name] = scope.value.split(":");
    const words = scope.selectedOptions[0].textContent;
    if (kind === "all") purge({ all: true }, words);
    else if (kind === "tag") purge({ tag: `${name}:${number.value}` }, `${words}: ${number.value}`);
    else purge({ resource: name }, words);
  });

  /** @param done called after the purge, also if it failed */
  function purge(body, what, done) {
    byId("purge-hard").checked = false;
    setText(
      byId("purge-what"),
      `${what}. The answers become stale, and each is fetched again when a caller asks for it.`,
    );
    setText(message, "");
    confirmed = async () => {
      const hard = byId("purge-hard").checked;
      try {
        await post("cache/purge", { ...body, ...(hard && { hard }) });
        setText(message, `Purged: ${what}.`);
        message.className = "message good";
      } catch (error) {
        setText(message, `Not purged. ${error.message}`);
        message.className = "message bad";
      }
      done?.();
    };
    dialog.showModal();
  }
  return purge;
}
