// The status page: asks for the status every second, and shows it.
import { ask } from "./ask.js";
import { byId, show } from "./dom.js";
import "./explain.js";
import { showStatus } from "./panels.js";
import { clockText } from "./format.js";

const EVERY_MS = 1_000;
const SILENT_MS = 5_000;

let lastAt;

/** @param state "live" or "disconnected" */
function setState(state, text) {
  document.body.dataset.state = state;
  byId("connection").className = state === "live" ? "good" : "bad";
  show(byId("connection"), `● ${text}`);
}

async function follow() {
  try {
    const span = byId("span").value;
    const status = await ask(`status?span=${span}`, { signal: AbortSignal.timeout(SILENT_MS) });
    lastAt = Date.now();
    byId("status").hidden = false;
    setState("live", "Live");
    showStatus(status);
  } catch ({ status }) {
    // The browser would ask for the token again and again.
    if (status === 401)
      return setState("disconnected", "The token is wrong or has changed. Load the page again.");
    const since = lastAt === undefined ? "" : ` since ${clockText(lastAt)}: the numbers below are old`;
    setState("disconnected", `Disconnected${since}. Trying again…`);
  }
  setTimeout(follow, EVERY_MS);
}

void follow();
