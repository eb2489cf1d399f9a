// Explains a URL: what is cached, what a request would cost, and why the latest requests were not hits.
import { ask } from "./ask.js";
import { purge } from "./changes.js";
import { byId, h, showRows } from "./dom.js";

byId("explain-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void explain();
});
// Tables show queries as links.
byId("folded").addEventListener("click", (event) => {
  const { target } = event;
  if (!target.matches("td a")) return;
  event.preventDefault();
  byId("url").value = `/${target.textContent}`;
  byId("explain").open = true;
  byId("url").focus();
  void explain();
});

/** Reads a URL, or the `curl` line of a caller, whose headers may name the app and the format. */
function readPasted(text) {
  // With -G, other options contain parts of the URL, so the URL is not taken from such a line.
  if (!/^curl\s(?!.*\s(?:-G|--get)\s)/s.test(text)) return { url: text };
  const [url] = /[^\s'"]*\/(?:listings|sold|areas|cache)\b[^\s'"]*/.exec(text) ?? [text];
  const [, app] = /x-app-id:\s*([^\s'"]+)/i.exec(text) ?? [];
  return { url, app, format: text.includes("-v2+json") ? "v2" : "json" };
}

async function explain() {
  const { url, app = byId("app").value.trim(), format = "json" } = readPasted(byId("url").value.trim());
  const about = new URLSearchParams({ url, format });
  try {
    const [entry, quote, history] = await Promise.all([
      ask(`cache/entry?${about}`),
      ask(`quote?${about}${app && `&app=${encodeURIComponent(app)}`}`),
      ask(`cache/history?${about}`),
    ]);
    const onclick = () => purge({ url, format }, url).then(explain);
    const button = h("button", { type: "button", onclick }, "Purge this answer…");
    byId("explanation").replaceChildren(factsOf(entry, quote), button, historyOf(history));
  } catch ({ message }) {
    byId("explanation").replaceChildren(h("p.bad", { role: "alert" }, message));
  }
}

function factsOf({ query, cutFrom, key, says }, quote) {
  const facts = {
    "Canonical query": query,
    ...(cutFrom && { "Cut from": cutFrom }),
    Key: key,
    "In the cache": says,
    "A request now": quote.says,
  };
  return h("dl.facts", ...Object.entries(facts).flatMap(([name, text]) => [h("dt", name), h("dd", text)]));
}

function historyOf({ requests, says }) {
  const table = h("table", { id: "history" });
  showRows(table, requests, says);
  return h("div.scroll", { tabIndex: 0, role: "group", ariaLabel: "Recent requests" }, table);
}
