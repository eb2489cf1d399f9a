// The changes that the buttons make. A dialog says what will happen, and then what has happened.
import { ask } from "./ask.js";
import { byId } from "./dom.js";

const CHANGES = {
  try: {
    path: "circuits/try",
    what: "Try the API now?",
    will: "While calls are paused, the next one is sent to the API as a try. It counts in the budget.",
  },
  purge: {
    path: "cache/purge",
    what: "Purge cached answers?",
    will: "They are out of date from now on. Each is fetched again when an app asks for it, which costs a call.",
  },
  reload: {
    path: "config/reload",
    what: "Reload the settings?",
    will: "The gateway reads its settings file again. All changes apply, or none.",
  },
};

let body = () => ({});
let change = CHANGES.try;
let done = () => {};

/**
 * Asks for a confirmation.
 * @param name of `CHANGES`
 * @param about which answer to purge; without it, the dialog asks
 */
export function propose(name, about, then = () => {}) {
  [change, done] = [CHANGES[name], then];
  const isPurge = name === "purge";
  const scope = byId("purge-scope");
  const chosen = () => about ?? (scope.value === "all" ? { all: true } : { resource: scope.value });
  body = () => (isPurge ? { ...chosen(), ...(byId("hard").checked && { hard: true }) } : {});
  byId("scopes").hidden = !isPurge || about !== undefined;
  byId("hardness").hidden = !isPurge;
  byId("hard").checked = false;
  byId("what").textContent = about === undefined ? change.what : `Purge ${about.url}?`;
  byId("will").textContent = change.will;
  showResult("", "");
  byId("dialog").showModal();
}

function showResult(className, text) {
  byId("message").textContent = text;
  byId("message").className = className;
  byId("confirm").hidden = text !== "";
  byId("cancel").textContent = text === "" ? "Cancel" : "Close";
}

for (const name of Object.keys(CHANGES)) byId(name).addEventListener("click", () => propose(name));
byId("cancel").addEventListener("click", () => byId("dialog").close());
byId("confirm").addEventListener("click", async () => {
  try {
    const { says } = await ask(change.path, { method: "POST", body: JSON.stringify(body()) });
    showResult("good", says);
    done();
  } catch ({ message }) {
    showResult("bad", `Not done. ${message}`);
  }
});
