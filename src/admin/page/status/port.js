// Sends requests to the admin port. The session is in a cookie that this page cannot read; changes also carry a CSRF token.
let csrfToken = null;

/** An error answer of the admin port, with the text of its problem and its status. */
export class Refusal extends Error {
  constructor(status, problem) {
    const { title = `Status ${status}`, detail, errors = [] } = problem;
    const mistakes = errors.map(({ parameter, expected }) => `${parameter} must be ${expected}`);
    super([title, ...(errors.length > 0 ? mistakes : [detail ?? ""])].filter(Boolean).join(": "));
    this.status = status;
  }
}

async function ask(path, options) {
  const response = await fetch(path, { cache: "no-store", ...options });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, answer);
  return answer;
}

export function get(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value);
  const search = new URLSearchParams(given);
  return ask(search.size > 0 ? `${path}?${search}` : path);
}

export function post(path, body) {
  const headers = { "Content-Type": "application/json", ...(csrfToken && { "X-CSRF-Token": csrfToken }) };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** @returns whether a login is needed, and whether the browser is logged in */
export const session = async () => keep(await get("session"));
export const login = async (token) => keep(await post("login", { token }));
export const logout = async () => keep(await post("logout", {}));

function keep(answer) {
  csrfToken = answer.csrfToken;
  return { loginNeeded: answer.loginNeeded, isLoggedIn: csrfToken !== null };
}
