import { problemText } from "./format.js";

/** Asks the admin port. @throws {Error} with the text of the problem; its `status` is that of the answer */
export async function ask(path, options) {
  const response = await fetch(path, { cache: "no-store", ...options });
  const { status, statusText: title } = response;
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw Object.assign(new Error(problemText({ status, title, ...answer })), { status });
}
