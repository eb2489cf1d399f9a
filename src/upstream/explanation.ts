/**
 * Makes the upstream's own words on a failure fit to be shown to a caller (interface, section 7: "a
 * short piece of further information"; its shape is not shown, so plain text and JSON are both read).
 */

const LONGEST_EXPLANATION = 300;

/**
 * @param body the upstream's error body
 * @param hosts host names that must not be shown
 * @returns one line of plain text without addresses and credentials; `undefined` where nothing is left
 */
export function explanationIn(body: Buffer, hosts: readonly string[]): string | undefined {
  const text = messageIn(body.subarray(0, 64 * 1024).toString("utf8"));
  if (text === undefined || text.trimStart().startsWith("<")) return undefined;
  const clean = hosts
    .reduce((shown, host) => shown.replaceAll(host, "the service"), text)
    .replaceAll(/https?:\/\/\S+/gi, "(address)")
    .replaceAll(/\b(callerId|time|unique|hash|key)=[^&\s"']*/gi, "")
    .replaceAll(/\b[0-9a-f]{40}\b/gi, "(hash)")
    // eslint-disable-next-line no-control-regex -- control characters are just what is removed
    .replaceAll(/[\u0000-\u001f\u007f-\u009f\s]+/g, " ")
    .trim();
  if (clean === "") return undefined;
  return clean.length > LONGEST_EXPLANATION ? `${clean.slice(0, LONGEST_EXPLANATION)}…` : clean;
}

/** The text itself, or the member of a JSON object that people put the message in. */
function messageIn(text: string): string | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return text;
  }
  if (typeof parsed === "string") return parsed;
  if (typeof parsed !== "object" || parsed === null) return undefined;
  for (const name of ["message", "error", "detail", "description"]) {
    const value: unknown = Reflect.get(parsed, name);
    if (typeof value === "string") return value;
  }
  return undefined;
}
