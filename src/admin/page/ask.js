/** Asks the admin port. @throws {Error} with the text of the problem; its `status` is that of the answer */
export async function ask(path, options) {
  const response = await fetch(path, { cache: "no-store", ...options });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const { title = `Status ${response.status}`, detail = "", errors = [], problems = [] } = answer;
  const mistakes = errors.map(({ parameter, expected }) => `${parameter} must be ${expected}`);
  const texts = [title, detail, ...mistakes, ...problems].filter(Boolean);
  throw Object.assign(new Error(texts.join(": ")), { status: response.status });
}
