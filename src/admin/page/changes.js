// The changes that the buttons make. The browser's own dialogs say what will happen, and what has happened.
import { ask } from "./ask.js";
import { byId } from "./dom.js";

/** @param will what will happen */
async function change(path, will, body = {}) {
  if (!confirm(will)) return;
  try {
    alert((await ask(path, { method: "POST", body: JSON.stringify(body) })).says);
  } catch ({ message }) {
    alert(`Not done. ${message}`);
  }
}

const PURGED =
  "Purged answers are out of date from now on. Each is fetched again when an app asks for it, which costs a call.";

/**
 * @param scope as in the body of `POST /cache/purge`
 * @param what the same in words
 */
export function purge(scope, what) {
  return change("cache/purge", `Purge ${what}? ${PURGED}`, scope);
}

byId("try").addEventListener("click", () =>
  change(
    "circuits/try",
    "Try the API now? While calls are paused, the next one is sent to the API as a try. It counts in the budget.",
  ),
);
byId("purge").addEventListener("click", () => purge({ all: true }, "all answers"));
byId("reload").addEventListener("click", () =>
  change(
    "config/reload",
    "Reload the settings? The gateway reads its settings file again. All changes apply, or none.",
  ),
);
