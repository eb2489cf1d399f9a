// The changes that the buttons make. The browser's own dialogs say what will happen, and what has happened.
import { ask } from "./ask.js";
import { byId } from "./dom.js";

/** @param will what will happen */
async function change(path, will, body = {}) {
  if (!confirm(will)) return;
  try {
    alert((await ask(path, { method: "POST", body: JSON.stringify(body) })).says);
    // The next purge is not hard by mistake.
    byId("hard").checked = false;
  } catch ({ message }) {
    alert(`Not done. ${message}`);
  }
}

const STALE = "Purged answers are out of date from now on.";
const HARD = "Purged answers are never served again, not even while the API is down.";
const COST = "Each is fetched again when an app asks for it, which costs a call.";

/**
 * @param scope as in the body of `POST /cache/purge`
 * @param what the same in words
 */
export function purge(scope, what) {
  const hard = byId("hard").checked;
  return change("cache/purge", `Purge ${what}? ${hard ? HARD : STALE} ${COST}`, { ...scope, hard });
}

byId("try").addEventListener("click", () =>
  change(
    "circuits/try",
    "Try the API now? While calls are paused, the next one is sent to the API as a try. It counts in the budget.",
  ),
);
byId("purge").addEventListener("click", () => {
  const { value } = byId("purge-scope");
  return value === "all"
    ? purge({ all: true }, "all answers")
    : purge({ resource: value }, `all answers of ${value}`);
});
byId("reload").addEventListener("click", () =>
  change(
    "config/reload",
    "Reload the settings? The gateway reads its settings file again. All changes apply, or none.",
  ),
);
