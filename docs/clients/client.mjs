// Prints all records of a search, or a single record, one a line. Needs Node 20 or newer, and no package.
//   node client.mjs http://127.0.0.1:8080 '/listings?areaId=76&objectType=villa&limit=100'
// Change APP and the User-Agent to your own.
const APP = "my-app";
const HEADERS = {
  "X-App-Id": APP,
  "User-Agent": `${APP}/1.0 (team@example.com)`,
  Accept: "application/json",
};
const MOST_TRIES = 5;

/** The last answer of each URL. The gateway answers 304 without a body if it is still current. */
const known = new Map();

/** Asks until there is an answer. Retry-After says when to ask again. */
async function ask(url) {
  const last = known.get(url);
  for (let tries = 1; ; tries += 1) {
    const headers = last ? { ...HEADERS, "If-None-Match": last.etag } : HEADERS;
    const response = await fetch(url, { headers });
    if (last && response.status === 304) return last;
    const body = await response.json().catch(() => ({}));
    if (response.ok) {
      const answer = { body, etag: response.headers.get("etag"), link: response.headers.get("link") ?? "" };
      if (answer.etag) known.set(url, answer);
      return answer;
    }
    const wait = Number(response.headers.get("retry-after"));
    if (!wait || tries === MOST_TRIES) throw new Error(inWords(response.status, body));
    console.error(`${response.status} ${body.title}. Waiting ${wait} s.`);
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

/** Log this text: it names every mistake and what to do. */
function inWords(status, { title = "", detail = "", remedy = "", errors = [] }) {
  const mistakes = errors.map(
    ({ parameter, value, expected, hint = "" }) => `\n  ${parameter}=${value}: expected ${expected}. ${hint}`,
  );
  return `${status} ${title}. ${detail} ${remedy}${mistakes.join("")}`;
}

/** Yields every record. A page names the next one in Link; single records and areas have one page. */
async function* records(url) {
  for (let next = url; next !== undefined;) {
    const { body, link } = await ask(next);
    yield* body[new URL(next).pathname.split("/")[1]];
    const [, target] = /<([^>]*)>; rel="next"/.exec(link) ?? [];
    next = target && new URL(target, next).href;
  }
}

const [base, path] = process.argv.slice(2);
try {
  for await (const record of records(new URL(path, base).href)) console.log(JSON.stringify(record));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
