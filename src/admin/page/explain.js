// Explains a URL, and sends the changes that the buttons name, after a confirmation.
import { byId, h, setText, showTable } from "./dom.js";
import { clockTime, duration } from "./words.js";

/** @throws {Error} with the text of the problem; its `status` is that of the answer */
export async function ask(path, options) {
  const response = await fetch(path, { cache: "no-store", ...options });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const { title = `Status ${response.status}`, detail = "", errors = [], problems = [] } = answer;
  const mistakes = errors.map(({ parameter, expected }) => `${parameter} must be ${expected}`);
  const texts = [title, detail, ...mistakes, ...problems].filter(Boolean);
  throw Object.assign(new Error(texts.join(": ")), { status: response.status });
}

/** @returns a function that explains a canonical query */
export function createExplain() {
  const change = createChange();
  byId("explain-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void explain();
  });
  byId("purge-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const { value, selectedOptions } = byId("purge-scope");
    change(
      `Purge ${selectedOptions[0].textContent}`,
      "cache/purge",
      value === "all" ? { all: true } : { resource: value },
    );
  });
  byId("reload").addEventListener("click", () => change("Read the settings again", "config/reload", {}));
  byId("try").addEventListener("click", () =>
    change("Try the API now, although it is paused", "circuits/try", {}),
  );

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
      const purge = h("button", { type: "button", className: "danger", textContent: "Purge this answer…" });
      purge.addEventListener("click", () => change(`Purge ${entry.query}`, "cache/purge", { url }, explain));
      byId("explanation").replaceChildren(factsOf(entry, quote), purge, historyOf(history));
    } catch ({ message }) {
      byId("explanation").replaceChildren(h("p", { className: "bad", role: "alert", textContent: message }));
    }
  }

  return (query) => {
    byId("url").value = `/${query}`;
    byId("explain").open = true;
    byId("explain").scrollIntoView();
    byId("url").focus();
    void explain();
  };
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
  showTable(table, requests, {
    columns: [
      ["At", "", ({ at }) => clockTime(at)],
      ["App", "", ({ app }) => app],
      [
        "Outcome",
        "",
        ({ outcome }) => outcome,
        ({ status, durationMs }) => `${status}, ${duration(durationMs)}`,
      ],
      ["Why it was not a hit", "", ({ why }) => why],
    ],
    empty: "This process remembers no request for this URL that was not a hit.",
  });
  return h("div", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "Recent requests" }, table);
}

/** @returns a function that asks for a confirmation, and then sends a change */
function createChange() {
  const dialog = byId("dialog");
  let confirmed = () => {};
  byId("cancel").addEventListener("click", () => dialog.close());
  byId("confirm").addEventListener("click", () => {
    dialog.close();
    confirmed();
  });

  return (what, path, body, done) => {
    const isPurge = path === "cache/purge";
    const message = byId("message");
    setText(byId("what"), `${what}?`);
    byId("hard").checked = false;
    byId("hard").parentElement.hidden = !isPurge;
    confirmed = async () => {
      const hard = byId("hard").checked && { hard: true };
      const options = { method: "POST", body: JSON.stringify({ ...body, ...hard }) };
      const answer = await ask(path, options).catch((error) => error);
      const failure = answer instanceof Error && `Not done. ${answer.message}`;
      setText(message, failure || answer.says);
      message.className = failure ? "bad" : "good";
      done?.();
    };
    dialog.showModal();
  };
}
