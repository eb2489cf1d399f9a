/** Removes secrets from texts that leave the process for operators: log lines and traces. */

const SIGNATURE = /(hash|unique)(=|%3D)[^&\s"\\]*/gi;

/**
 * @param secrets texts that must never be written. The list may grow.
 * @returns a function that redacts signatures and the secrets, in every spelling that JSON and URLs give them
 */
export function createRedact(secrets: readonly string[]): (text: string) => string {
  const unwanted: string[] = [];
  let spelled = 0;
  return (text) => {
    for (; spelled < secrets.length; spelled++) unwanted.push(...spellingsOf(secrets[spelled] ?? ""));
    let clean = text.replaceAll(SIGNATURE, "$1:[redacted]");
    for (const secret of unwanted) clean = clean.replaceAll(secret, "[redacted]");
    return clean;
  };
}

/** @returns the text as it is and as it is escaped in a URL, each escaped for JSON */
function spellingsOf(secret: string): string[] {
  if (secret === "") return [];
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const spellings = [secret, encodeURIComponent(secret), form];
  return [...new Set(spellings.map((spelling) => JSON.stringify(spelling).slice(1, -1)))];
}
