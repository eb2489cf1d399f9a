// Walks all pages of a search. Needs Node 20 or newer, and no package.
//
//   node client.mjs http://127.0.0.1:8080 '/listings?areaId=76&objectType=villa'
//
// Prints one record a line. Change APP and the User-Agent to your own.
const APP = "my-app";
const HEADERS = {
  "X-App-Id": APP,
  "User-Agent": `${APP}/1.0 (team@example.com)`,
  Accept: "application/json",
};
const PAGE = 100;
const MOST_TRIES = 5;

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** The seconds until something is left again; 0 where something is left. `RateLimit: "1m";r=0;t=30, "1d";r=9;t=4000` */
function waitByRateLimit(header) {
  const spent = (header ?? "")
    .split(",")
    .map((item) => [/;r=(\d+)/.exec(item)?.[1], /;t=(\d+)/.exec(item)?.[1]].map(Number))
    .filter(([remaining]) => remaining === 0)
    .map(([, seconds]) => seconds);
  return Math.max(0, ...spent);
}

/** Asks until there is an answer. Retry-After says when to ask again. */
async function ask(url) {
  for (let tries = 1; ; tries += 1) {
    const response = await fetch(url, { headers: HEADERS });
    if (response.ok) return response;
    const problem = await response.json();
    const retryAfter = response.headers.get("retry-after");
    const message = `${response.status} ${problem.title}. ${problem.remedy}`;
    if (retryAfter === null || tries === MOST_TRIES) throw new Error(message);
    console.error(`${message} Waiting ${retryAfter} s.`);
    await sleep(Number(retryAfter));
  }
}

/** Yields every record of a search. */
async function* records(base, path) {
  const url = new URL(path, base);
  const resource = url.pathname.split("/")[1];
  // Areas have one page: they take a limit and no offset.
  const hasPages = resource !== "areas";
  if (hasPages) url.searchParams.set("limit", PAGE);
  for (let offset = 0; ; offset += PAGE) {
    if (hasPages) url.searchParams.set("offset", offset);
    const response = await ask(url);
    const page = await response.json();
    yield* page[resource];
    if (!hasPages || page[resource].length === 0 || offset + PAGE >= page.totalCount) return;
    // Cached answers are free; the next one may not be. Spread the calls instead of running into a refusal.
    await sleep(waitByRateLimit(response.headers.get("ratelimit")));
  }
}

const [base, path] = process.argv.slice(2);
if (path === undefined) {
  console.error("Usage: node client.mjs <gateway> <path>");
  process.exit(2);
}
for await (const record of records(base, path)) console.log(JSON.stringify(record));
