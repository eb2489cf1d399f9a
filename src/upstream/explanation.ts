/**
 * Cleans the upstream's explanation of an error, so that callers may read it. The interface promises "a short piece of
 * further information" (section 7) but does not define its form, so plain text and JSON are both accepted.
 */
import { isIPv6 } from "node:net";
import { domainToUnicode } from "node:url";

const LONGEST_EXPLANATION = 300;
/** Only the beginning is cleaned, because a long text would take long. */
const LONGEST_CLEANED = 8 * 1024;

/** Texts that callers must never see. */
export interface Confidential {
  /** The upstream's hosts, each with its port if it has one. */
  readonly hosts: readonly string[];
  readonly callerId: string;
  /** All private keys so far, and all other secrets. */
  readonly secrets: readonly string[];
}

/** Adds the `unique` and `hash` of a signed URL to the secrets. */
export function withSignature(confidential: Confidential, signedUrl: string): Confidential {
  const parameters = new URLSearchParams(signedUrl.slice(signedUrl.indexOf("?") + 1));
  const signature = ["unique", "hash"].flatMap((name) => parameters.getAll(name));
  return { ...confidential, secrets: [...confidential.secrets, ...signature] };
}

/**
 * Extracts the explanation from the body of an error.
 * @returns one line of plain text without addresses, credentials and markup; `undefined` if nothing is left
 */
export function explanationIn(body: Buffer, confidential: Confidential): string | undefined {
  const text = messageIn(body.subarray(0, LONGEST_CLEANED).toString("utf8"));
  if (text === undefined || text.trimStart().startsWith("<")) return undefined;
  // Invisible characters go first, because they could hide a secret by interrupting it.
  const visible = text.replaceAll(/[\p{Cf}\p{Cs}]+/gu, "").replaceAll(/[\p{Cc}\s]+/gu, " ");
  // Secrets go before markup, because a secret may look like a tag.
  // Hashes go before addresses, because a hash may directly precede a URL.
  const words = withoutHashes(withoutMarkup(withoutSecrets(visible, confidential)), confidential.hosts);
  const clean = withoutAddresses(words, confidential.hosts)
    .replaceAll(/(?:callerId|unique|hash|\btime|\bkey)(?:=|%3D)[^&\s"']*/gi, "")
    .replaceAll(/\s+/g, " ")
    .trim();
  if (clean === "") return undefined;
  if (clean.length <= LONGEST_EXPLANATION) return clean;
  // The cut may leave half of a surrogate pair.
  return `${clean.slice(0, LONGEST_EXPLANATION).replace(/\p{Cs}$/u, "")}…`;
}

/** Every alternative also matches up to the end of the text, so that the search takes linear time. */
const MARKUP = /<(?:!--.*?(?:-->|$)|(script|style)\b.*?(?:<\/\1[^>]*(?:>|$)|$)|[a-z!/?][^>]*(?:>|$))/gis;

function withoutMarkup(text: string): string {
  // Without the second step, removing the inner tag of `<<b>script>` would leave a new tag.
  return text.replaceAll(MARKUP, " ").replaceAll(/(?<!<)<+(?=[a-z!/?])/gi, "");
}

/** A hash ends where a host begins. Otherwise it would include the `a` of `api.example`, and the host would stay. */
function withoutHashes(text: string, hosts: readonly string[]): string {
  const upToHost = hosts.map((host) => String.raw`[0-9a-f]{40,}?(?=${escaped(host.replace(/:\d+$/, ""))})`);
  return text.replaceAll(new RegExp([...upToHost, "[0-9a-f]{40,}"].join("|"), "gi"), "(hash)");
}

function withoutSecrets(text: string, { secrets, callerId }: Confidential): string {
  // The longest first, because one secret may be a part of another one.
  const known = secrets.flatMap(spellingsOf).toSorted((one, other) => other.length - one.length);
  let shown = text;
  for (const secret of known) shown = shown.replaceAll(new RegExp(escaped(secret), "gi"), "(secret)");
  for (const id of spellingsOf(callerId)) {
    const word = new RegExp(String.raw`(?<![\p{L}\p{N}_])${escaped(id)}(?![\p{L}\p{N}_])`, "giu");
    shown = shown.replaceAll(word, "(caller)");
  }
  return shown;
}

/** @returns the text as it is, and as it is escaped in a URL, in JSON and in HTML */
function spellingsOf(text: string): string[] {
  // The white space of an explanation is collapsed before the search.
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

const URL_TEXT = /[a-z][a-z0-9+.-]{0,20}(?::|%3A)(?:\\?\/|%2F){2}\S+/gi;
/** Host names of private networks. */
const PRIVATE_NAME =
  /\b(?:localhost|(?:[\w-]{1,63}\.){1,10}(?:internal|intranet|local|localdomain|localhost|lan|corp|home|svc))\b(?::\d{1,5})?/gi;
const IPV4 = /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?!\d)/g;
/** Candidates for IPv6 addresses. Times of day look similar. */
const IPV6 = /(?<![\w:.])[0-9a-f]{0,4}:[0-9a-f:.]{1,44}/gi;

function withoutAddresses(text: string, hosts: readonly string[]): string {
  const named = text.replaceAll(URL_TEXT, "(address)").replaceAll(PRIVATE_NAME, "(address)");
  return withoutHosts(named, hosts).replaceAll(IPV4, "(address)").replaceAll(IPV6, hideIPv6);
}

/** A full stop or colon after an address may belong to the sentence. */
function hideIPv6(found: string): string {
  if (isIPv6(found)) return found === "::" ? found : "(address)";
  return isIPv6(found.slice(0, -1)) ? `(address)${found.slice(-1)}` : found;
}

/** Finds hosts in either case, with and without their port, and their subdomains. */
function withoutHosts(text: string, hosts: readonly string[]): string {
  return hosts
    .flatMap((host) => [host, host.replace(/:\d+$/, "")])
    .flatMap((host) => [host, domainToUnicode(host)])
    .filter((host) => host !== "")
    .reduce((shown, host) => shown.replaceAll(hostPattern(host), "the service"), text);
}

function hostPattern(host: string): RegExp {
  // A host name of one label may be part of an ordinary word.
  const isOneWord = /^[\w-]+$/.test(host);
  return isOneWord
    ? new RegExp(String.raw`(?<![\w-])(?:[\w-]{1,63}\.){0,10}${escaped(host)}(?![\w-])`, "gi")
    : new RegExp(String.raw`(?:[\w-]{1,63}\.){0,10}${escaped(host)}`, "gi");
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
}

/** @returns the text itself, or the usual member of a JSON object */
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
