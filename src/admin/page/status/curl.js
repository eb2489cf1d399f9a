// Reads a pasted text: a URL, a path, or a curl line.

/** Splits a shell line into words. Understands quotes, backslashes, and the $'…' that browsers write. */
function wordsOf(line) {
  const words = [];
  let word;
  for (const [part, , ansi, single, double, escaped, blank] of line
    .replaceAll(/\\\r?\n/g, " ")
    .matchAll(/(\$'((?:[^'\\]|\\.)*)'|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|(\s+)|[^\s'"\\$]+|.)/gs)) {
    if (blank !== undefined) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else
      word =
        (word ?? "") +
        (ansi?.replaceAll(/\\(.)/g, "$1") ??
          single ??
          double?.replaceAll(/\\(["\\$`])/g, "$1") ??
          escaped ??
          part);
  }
  return word === undefined ? words : [...words, word];
}

/** Options of curl whose value is not needed here. */
const VALUE_OPTIONS = new Set([
  "-X",
  "--request",
  "-A",
  "--user-agent",
  "-e",
  "--referer",
  "-b",
  "--cookie",
  "-o",
  "--output",
  "-m",
  "--max-time",
  "--connect-timeout",
  "-u",
  "--user",
  "-x",
  "--proxy",
  "-d",
  "--data",
  "--data-raw",
  "-w",
  "--write-out",
  "--retry",
]);

/** @returns the URL, and the app and format from the headers of a curl line */
export function readPasted(text) {
  const line = text.trim().replace(/^\$\s+/, "");
  if (!/^curl\s/.test(line)) return { url: line.replace(/^(GET|HEAD)\s+(\S+).*$/s, "$2") };
  const words = wordsOf(line).slice(1);
  const read = { url: "", headers: new Map(), queries: [] };
  while (words.length > 0) readWord(words, read);
  const { url, headers, queries } = read;
  const search = queries.length === 0 ? "" : `${url.includes("?") ? "&" : "?"}${queries.join("&")}`;
  const isV2 = /-v2\+json/.test(headers.get("accept") ?? "");
  return { url: url + search, app: headers.get("x-app-id"), ...(isV2 && { format: "v2" }) };
}

/** Removes the first word, and the value of an option, from `words`, and keeps what is needed in `read`. */
function readWord(words, read) {
  const [, name = "", inline] = /^(--[^=]+|-[A-Z])=?(.+)?$/is.exec(words[0]) ?? [];
  const word = words.shift();
  const value = () => inline ?? words.shift() ?? "";
  if (name === "-H" || name === "--header") addHeader(read.headers, value());
  else if (name === "--url") read.url = value();
  else if (name === "--data-urlencode") read.queries.push(encodedPair(value()));
  else if (VALUE_OPTIONS.has(name)) value();
  else if (!word.startsWith("-")) read.url ||= word;
}

function addHeader(headers, line) {
  const colon = line.indexOf(":");
  if (colon > 0) headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
}

/** `name=value`, as `curl -G --data-urlencode` writes it. */
function encodedPair(pair) {
  const equals = pair.indexOf("=");
  return equals < 0
    ? encodeURIComponent(pair)
    : `${pair.slice(0, equals)}=${encodeURIComponent(pair.slice(equals + 1))}`;
}
