import type { Command } from "commander";

import { addAdminOptions, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { instant, inWords, print, printJson, table } from "./print.ts";

interface ExplainOptions extends AdminOptions {
  readonly app?: string;
  readonly format?: string;
}

/** `explain <url>`: how the gateway interprets a URL, what it has cached for it, and what a request would cost. */
export function addExplain(program: Command): void {
  const command = program
    .command("explain")
    .description(
      "explain a URL: canonical query, where it is cached and how old it is, why requests were not hits, what a request costs",
    )
    .argument("<url>", "URL or path on the callers' port, in quotes")
    .option("--app <id>", "the app of the request")
    .option("--format <format>", "v2: the answer frozen to version 2")
    .action(explain);
  addAdminOptions(command);
}

interface Entry {
  readonly query: string;
  /** The block that the page is cut from. */
  readonly cutFrom?: string;
  readonly key: string;
  readonly next: string;
  readonly why: string;
  readonly entry: {
    readonly tier: string;
    readonly status: number;
    readonly ageSeconds: number;
    readonly freshForSeconds: number;
    readonly bodyBytes: number;
  } | null;
}

interface Quote {
  readonly app: string;
  readonly upstreamCalls: number;
  readonly predictedWaitMs: number;
  readonly waitsFor?: string | null;
  readonly refusal: string | null;
}

interface History {
  readonly asked: number;
  readonly requests: readonly {
    readonly at: number;
    readonly app: string;
    readonly outcome: string;
    readonly why: string;
  }[];
}

async function explain(url: string, options: ExplainOptions): Promise<void> {
  const { app, format, json } = options;
  const client = createAdminClient(options);
  const entry = await client.get<Entry>("/cache/entry", { url, format });
  const quote = await client.get<Quote>("/quote", { url, format, app });
  const history = await client.get<History>("/cache/history", { url, format });
  if (json) return printJson({ entry, quote, history });
  for (const [name, text] of linesOf(entry, quote)) print(`${name.padEnd(14)}${text}`);
  printHistory(history);
}

const MOST_REQUESTS = 10;

function printHistory({ requests }: History): void {
  if (requests.length === 0)
    return print("\nThe process that answered remembers no request for this URL that was not a hit.");
  print("\nRequests that were not hits, newest first");
  const rows = requests
    .slice(0, MOST_REQUESTS)
    .map(({ at, app, outcome, why }) => [instant(at), app, outcome, why]);
  print(table(["at", "app", "outcome", "why"], rows));
}

const NEXT: Readonly<Record<string, string>> = {
  hit: "is answered from the cache",
  update: "gets the stale answer, which is refreshed in the background",
  fetch: "is fetched from the property API",
};

function linesOf(asked: Entry, quote: Quote): (readonly [string, string])[] {
  const { query, cutFrom, key, next, why, entry } = asked;
  return [
    ["query", query],
    ...(cutFrom === undefined ? [] : [["cut from", cutFrom] as const]),
    ["key", key],
    ["cached", entry === null ? `no (${why})` : cachedIn(entry, why)],
    ...(quote.refusal === null ? ([["a request", NEXT[next] ?? next]] as const) : []),
    costOf(quote),
  ];
}

function costOf({ app, upstreamCalls, predictedWaitMs, waitsFor, refusal }: Quote): [string, string] {
  const wait =
    predictedWaitMs === 0 ? "no wait" : `waits ${inWords(predictedWaitMs)} for ${waitsFor ?? "a call"}`;
  if (refusal !== null) return ["a request", `is refused for the app ${app}: ${refusal} (${wait})`];
  const calls = upstreamCalls === 1 ? "1 upstream call" : `${upstreamCalls} upstream calls`;
  return ["costs", `${calls}, ${wait}, for the app ${app}`];
}

function cachedIn(
  { tier, status, ageSeconds, freshForSeconds, bodyBytes }: NonNullable<Entry["entry"]>,
  why: string,
): string {
  const age = `${inWords(ageSeconds * 1000)} old`;
  const left =
    freshForSeconds > 0
      ? `fresh for ${inWords(freshForSeconds * 1000)}`
      : `expired ${inWords(-freshForSeconds * 1000)} ago`;
  return `in ${tier}: status ${status}, ${bodyBytes} bytes, ${age}, ${why === "purged" ? "purged" : left}`;
}
