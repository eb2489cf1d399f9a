/**
 * Makes the upstream's own words on a failure fit to be shown to a caller (interface, section 7: "a
 * short piece of further information"; its shape is not shown, so plain text and JSON are both read).
 */
import { isIPv6 } from "node:net";
import { domainToUnicode } from "node:url";

const LONGEST_EXPLANATION = 300;

/** What a caller must never read, whatever the upstream writes. */
export interface Confidential {
  /** The upstream's hosts, with their port where they have one. */
  readonly hosts: readonly string[];
  readonly callerId: string;
  /** Every private key so far, and every other secret. */
  readonly secrets: readonly string[];
}

/** @returns the same, and the `unique` and `hash` of a signed URL, which must not be read either */
export function withSignature(confidential: Confidential, signedUrl: string): Confidential {
  const parameters = new URLSearchParams(signedUrl.slice(signedUrl.indexOf("?") + 1));
  const signature = ["unique", "hash"].flatMap((name) => parameters.getAll(name));
  return { ...confidential, secrets: [...confidential.secrets, ...signature] };
}

/**
 * @param body the upstream's error body
 * @returns one line of plain text without addresses, credentials and markup; `undefined` where nothing is left
 */
export function explanationIn(body: Buffer, confidential: Confidential): string | undefined {
  const text = messageIn(body.subarray(0, 64 * 1024).toString("utf8"));
  if (text === undefined || text.trimStart().startsWith("<")) return undefined;
  // Invisible characters go first: a secret must not be hidden by what stands inside it.
  const visible = text.replaceAll(/[\p{Cf}\p{Cs}]+/gu, "").replaceAll(/[\p{Cc}\s]+/gu, " ");
  // Secrets go before markup: a secret may look like a tag.
  const words = withoutMarkup(withoutSecrets(visible, confidential));
  const clean = withoutAddresses(words, confidential.hosts)
    .replaceAll(/(?:callerId|unique|hash|\btime|\bkey)(?:=|%3D)[^&\s"']*/gi, "")
    .replaceAll(/[0-9a-f]{40,}/gi, "(hash)")
    .replaceAll(/\s+/g, " ")
    .trim();
  if (clean === "") return undefined;
  if (clean.length <= LONGEST_EXPLANATION) return clean;
  // A character may be two code units: half of one is no character.
  return `${clean.slice(0, LONGEST_EXPLANATION).replace(/\p{Cs}$/u, "")}…`;
}

/** Each alternative ends at the end of the text at the latest, so that the search takes linear time. */
const MARKUP = /<(?:!--.*?(?:-->|$)|(script|style)\b.*?(?:<\/\1[^>]*(?:>|$)|$)|[a-z!/?][^>]*(?:>|$))/gis;

function withoutMarkup(text: string): string {
  // Without the second step, the two halves of `<<b>script>` would become a tag.
  return text.replaceAll(MARKUP, " ").replaceAll(/(?<!<)<+(?=[a-z!/?])/gi, "");
}

function withoutSecrets(text: string, { secrets, callerId }: Confidential): string {
  // The longest first: a secret that is a part of another one would leave the rest of it.
  const known = secrets.flatMap(spellingsOf).toSorted((one, other) => other.length - one.length);
  let shown = text;
  for (const secret of known) shown = shown.replaceAll(new RegExp(escaped(secret), "gi"), "(secret)");
  for (const id of spellingsOf(callerId)) {
    const word = new RegExp(String.raw`(?<![\p{L}\p{N}_])${escaped(id)}(?![\p{L}\p{N}_])`, "giu");
    shown = shown.replaceAll(word, "(caller)");
  }
  return shown;
}

/** The ways in which a text is written: as it is, in a URL, in JSON, in HTML. */
function spellingsOf(text: string): string[] {
  // An explanation has no line ends and no doubled blanks.
  const line = text.replaceAll(/\s+/g, " ").trim();
  if (line === "") return [];
  const form = new URLSearchParams([["", line]]).toString().slice(1);
  const json = JSON.stringify(line).slice(1, -1);
  const html = line.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const quoted = html.replaceAll('"', "&quot;");
  return [
    ...new Set([line, encodeURIComponent(line), form, json, json.replaceAll("/", "\\/"), html, quoted]),
  ];
}

const URL_TEXT = /\b[a-z][a-z0-9+.-]{0,20}(?::|%3A)(?:\\?\/|%2F){2}\S+/gi;
/** Names that only a private network knows. */
const PRIVATE_NAME =
  /\b(?:localhost|(?:[\w-]{1,63}\.){1,10}(?:internal|intranet|local|localdomain|localhost|lan|corp|home|svc))\b(?::\d{1,5})?/gi;
const IPV4 = /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?!\d)/g;
/** What may be an IPv6 address; a time of day looks similar. */
const IPV6 = /(?<![\w:.])[0-9a-f]{0,4}:[0-9a-f:.]{1,44}/gi;

function withoutAddresses(text: string, hosts: readonly string[]): string {
  const named = text.replaceAll(URL_TEXT, "(address)").replaceAll(PRIVATE_NAME, "(address)");
  return withoutHosts(named, hosts).replaceAll(IPV4, "(address)").replaceAll(IPV6, hideIPv6);
}

/** A sentence may go on behind an address with a full stop or a colon. */
function hideIPv6(found: string): string {
  if (isIPv6(found)) return found === "::" ? found : "(address)";
  return isIPv6(found.slice(0, -1)) ? `(address)${found.slice(-1)}` : found;
}

/** Hosts are written in either case, with their port and without, with names in front of them. */
function withoutHosts(text: string, hosts: readonly string[]): string {
  return hosts
    .flatMap((host) => [host, host.replace(/:\d+$/, "")])
    .flatMap((host) => [host, domainToUnicode(host)])
    .filter((host) => host !== "")
    .reduce((shown, host) => shown.replaceAll(hostPattern(host), "the service"), text);
}

function hostPattern(host: string): RegExp {
  // A name of one label may be a part of a common word.
  const isOneWord = /^[\w-]+$/.test(host);
  return isOneWord
    ? new RegExp(String.raw`(?<![\w-])(?:[\w-]{1,63}\.){0,10}${escaped(host)}(?![\w-])`, "gi")
    : new RegExp(String.raw`(?:[\w-]{1,63}\.){0,10}${escaped(host)}`, "gi");
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
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
