// The status page: logs in if that is needed, subscribes to the events, and shows them.
import { byId, setText } from "./dom.js";
import { createExplain } from "./explain.js";
import { createPanels } from "./panels.js";
import { login, logout, session } from "./port.js";
import { clockTime } from "./words.js";

/** Events come every second. */
const SILENT_MS = 5_000;
const AGAIN_MS = 1_000;

const connection = byId("connection");
const show = createPanels(createExplain());
let source;
let silence;
let lastAt;

/** "loading", "login", "live" or "disconnected" */
function setState(state, text) {
  document.body.dataset.state = state;
  setText(connection, text);
  byId("login").hidden = state !== "login";
  byId("status").hidden = state === "login" || (state !== "live" && lastAt === undefined);
}

function disconnected() {
  const since = lastAt === undefined ? "" : ` since ${clockTime(lastAt)}: the numbers below are old`;
  setState("disconnected", `Disconnected${since}. Trying again…`);
}

/** Shows the login form if a login is needed; otherwise subscribes to the events. */
async function connect() {
  source?.close();
  clearTimeout(silence);
  try {
    const { loginNeeded, isLoggedIn } = await session();
    byId("logout").hidden = !isLoggedIn;
    if (loginNeeded) return askForToken(lastAt === undefined ? "" : "The session has ended.");
  } catch {
    disconnected();
    silence = setTimeout(connect, AGAIN_MS);
    return;
  }
  source = new EventSource("status/events");
  source.addEventListener("status", receive);
  source.addEventListener("error", reconnect);
  silence = setTimeout(reconnect, SILENT_MS);
}

function receive({ data }) {
  clearTimeout(silence);
  silence = setTimeout(reconnect, SILENT_MS);
  lastAt = Date.now();
  setState("live", "Live");
  show(JSON.parse(data));
}

function reconnect() {
  source.close();
  clearTimeout(silence);
  disconnected();
  silence = setTimeout(connect, AGAIN_MS);
}

function askForToken(message) {
  setState("login", "Not logged in");
  setText(byId("login-message"), message);
  byId("token").focus();
}

byId("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await login(byId("token").value);
    byId("token").value = "";
    setText(byId("login-message"), "");
    setState("loading", "Connecting…");
    void connect();
  } catch (error) {
    askForToken(error.status === 401 ? "This token is wrong." : `Logging in failed. ${error.message}`);
    byId("token").select();
  }
});

byId("logout").addEventListener("click", async () => {
  source?.close();
  clearTimeout(silence);
  await logout().catch(() => undefined);
  lastAt = undefined;
  void connect();
});

void connect();
