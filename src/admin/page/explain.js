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

async function explain() {
  const url = byId("url").value.trim();
  const about = new URLSearchParams({ url });
  const app = byId("app").value.trim();
  try {
    const [entry, quote, history] = await Promise.all([
      ask(`cache/entry?${about}`),
      ask(`quote?${about}${app && `&app=${encodeURIComponent(app)}`}`),
      ask(`cache/history?${about}`),
    ]);
    const onclick = () => purge({ url }, url).then(explain);
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
