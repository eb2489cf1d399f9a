// Explains a URL: what is cached, what a request would cost, and why the latest requests were not hits.
import { ask } from "./ask.js";
import { propose } from "./changes.js";
import { byId, h, showRows } from "./dom.js";

byId("explain-form").addEventListener("submit", (event) => {
  event.preventDefault();
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
    const purge = h("button", { type: "button", textContent: "Purge this answer…" });
    purge.addEventListener("click", () => propose("purge", { url }, explain));
    byId("explanation").replaceChildren(factsOf(entry, quote), purge, historyOf(history));
  } catch ({ message }) {
    byId("explanation").replaceChildren(h("p", { className: "bad", role: "alert", textContent: message }));
  }
}

/** Explains a canonical query. */
export function explainQuery(query) {
  byId("url").value = `/${query}`;
  byId("explain").open = true;
  byId("explain").scrollIntoView();
  byId("url").focus();
  void explain();
}

function factsOf({ query, cutFrom, key, says }, quote) {
  const facts = {
    "Canonical query": query,
    ...(cutFrom && { "Cut from": cutFrom }),
    Key: key,
    "In the cache": says,
    "A request now": quote.says,
  };
  const lines = Object.entries(facts).flatMap(([name, text]) => [
    h("dt", { textContent: name }),
    h("dd", { textContent: text }),
  ]);
  return h("dl", { className: "facts" }, ...lines);
}

function historyOf({ requests }) {
  const table = h("table", { id: "history" });
  showRows(table, requests, "This process remembers no request for this URL that was not a hit.");
  return h("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "Recent requests" }, table);
}
