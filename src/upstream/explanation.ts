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
  const clean = withoutHosts(text.replaceAll(/https?:\/\/\S+/gi, "(address)"), hosts)
    .replaceAll(/(?:callerId|unique|hash|\btime|\bkey)(?:=|%3D)[^&\s"']*/gi, "")
    .replaceAll(/[0-9a-f]{40,}/gi, "(hash)")
    // Controls, and what turns text around or hides in it.
    .replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\s]+/gu, " ")
    .trim();
  if (clean === "") return undefined;
  if (clean.length <= LONGEST_EXPLANATION) return clean;
  // A character may be two code units: half of one is no character.
  return `${clean.slice(0, LONGEST_EXPLANATION).replace(/\p{Cs}$/u, "")}…`;
}

/** Hosts are written in either case, with their port and without. */
function withoutHosts(text: string, hosts: readonly string[]): string {
  return hosts
    .flatMap((host) => [host, host.replace(/:\d+$/, "")])
    .map((host) => host.replaceAll(/[^\w]/g, String.raw`\$&`))
    .reduce((shown, host) => shown.replaceAll(new RegExp(host, "gi"), "the service"), text);
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
