/** The commands that ask a running gateway: name, options, and what is asked. `print.ts` shows the answers. */
import { setTimeout } from "node:timers/promises";

import { type Command, InvalidArgumentError, Option } from "commander";

import { type Client, type ClientOptions, createClient } from "./client.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { print, printAnswer } from "./print.ts";
import { addSettingOptions } from "./settings-options.ts";

/** The arguments and options of a command. */
type Given = Readonly<Record<string, string | undefined>>;
/** @returns the answer of the admin port */
type Ask = (client: Client, given: Given) => Promise<object>;

const MARKS: Readonly<Record<string, string>> = { bad: "PROBLEM", warn: "WATCH", good: "GOOD" };
const INSTANT = "2026-11-21T07:00Z, 2026-11-21, -24h, -7d or epoch seconds";
const URL_ARGUMENT = "URL or path on the callers' port, in quotes";
const FORMAT = ["--format <format>", "v2: the answer frozen to version 2"] as const;

/** Adds the commands to the program. */
export function addAdminCommands(program: Command): void {
  addQuestions(program);
  addChanges(program);
}

function addQuestions(program: Command): void {
  add(
    program,
    "status",
    "show what the status page shows: what is wrong, the apps, the budget, whether the API fails",
    async ({ get }) => {
      const status = await get<{ sentences: readonly { level: string; text: string }[] }>("/status");
      return { ...status, says: status.sentences.map(({ level, text }) => `${MARKS[level] ?? ""}: ${text}`) };
    },
    "at sentences harm series requests perSecond slowest asked shares isListed weight userAgent",
  );
  add(
    program,
    "explain",
    "explain a URL: what is cached, what a request costs, and why requests were not hits",
    async ({ get }, { url, app, format }) => ({
      entry: await get("/cache/entry", { url, format }),
      quote: await get("/quote", { url, format, app }),
      history: await get("/cache/history", { url, format }),
    }),
    "tags etag codings",
  )
    .argument("<url>", URL_ARGUMENT)
    .option("--app <id>", "the app of the request")
    .option(...FORMAT);
  add(
    program,
    "usage",
    "show the calls to the property API in a period, and whether the limits were kept",
    async ({ get }, { from, to, by = "app" }) => {
      const usage = await get<{ rows: readonly object[]; totals: object }>("/usage", { from, to, by });
      return { ...usage, rows: [...usage.rows, { [by]: "total", ...usage.totals }] };
    },
    "limits totals",
  )
    .option("--from <instant>", `start: ${INSTANT} (default: 24 hours before the end)`)
    .option("--to <instant>", "end (default: now)")
    .addOption(
      new Option("--by <what>", "what each row sums up").choices(["app", "resource", "hour"]).default("app"),
    );
  add(
    program,
    "budget",
    "show what is left of the budget in each window, the shares, the queue, and open circuits",
    ({ get }) => get("/budget"),
    "windowSeconds resetSeconds",
  );
}

function addChanges(program: Command): void {
  add(
    program,
    "purge",
    "declare cached answers out of date: one URL, or the answers that an option selects",
    async ({ post }, { url, key, resource, tag, all, ...how }) => {
      const scopes = Object.entries({ url, key, resource, tag, all }).filter(([, value]) => value);
      if (scopes.length !== 1)
        throw new CommandFailure("Give one of: a URL, --key, --resource, --tag, --all.", EXIT.usage);
      return await post("/cache/purge", { ...Object.fromEntries(scopes), ...how });
    },
  )
    .argument("[url]", URL_ARGUMENT)
    .option("--key <key>", "key of an answer, as explain shows it")
    .option("--resource <name>", "listings, sold, areas or images")
    .option("--tag <tag>", "an area or a record: area:76, record:123")
    .option("--all", "every answer")
    .option("--hard", "never serve them again, not even as stale answers")
    .option(...FORMAT);
  add(program, "warm", "show the state of the answers that are kept warm", ({ get }, { wait, timeout }) =>
    warmStates(get, wait ? Number(timeout) : 0),
  )
    .option("--wait", "wait until each of them is in the cache")
    .option("--timeout <seconds>", "longest time to wait", seconds, "300");
  add(program, "reload", "read the settings again; all of them apply, or none", ({ post }) =>
    post("/config/reload", {}),
  );
  add(
    program,
    "backup",
    "write a copy of the SQLite file of a running gateway into a new file",
    async ({ save }, { url: file = "" }) => {
      await save("/backup", file);
      const next = "Before you restore it, read docs/operations.md.";
      return { says: `${file} has the answers, the purges and the ledger. ${next}` };
    },
  ).argument("<file>", "path of the copy; it must not exist");
  add(
    program,
    "try",
    "try at once whether the API is back: the next call is a probe of every open circuit",
    ({ post }) => post("/circuits/try", {}),
  );
}

/** @param hidden members of the answer that only `--json` shows: they are long, or in another member, too */
function add(program: Command, name: string, description: string, ask: Ask, hidden = ""): Command {
  const command = program.command(name).description(description);
  return addSettingOptions(command, ["config"])
    .option(
      "--admin-url <url>",
      "admin port of the gateway (default: admin.host and admin.port of the settings)",
    )
    .option(
      "--token-file <file>",
      "file that contains the admin token (default: ADMIN_TOKEN or the settings)",
    )
    .option("--json", "print JSON")
    .action(async () => {
      const { json, config, adminUrl, tokenFile, ...given }: ClientOptions & Given = command.opts();
      const [url] = command.args;
      const client = createClient({ config, adminUrl, tokenFile });
      const answer = await ask(client, { ...given, ...(url && { url }) });
      if (json) print(JSON.stringify(answer, null, 2));
      else printAnswer(answer, hidden.match(/\w+/g) ?? []);
    });
}

interface WarmStates {
  readonly urls: readonly { readonly dueInSeconds: number; readonly last: string | null }[];
}

const LOOK_EVERY_MS = 500;

/** @param waitSeconds how long to wait until every answer is warm */
async function warmStates(get: Client["get"], waitSeconds: number): Promise<WarmStates> {
  const giveUpAt = performance.now() + waitSeconds * 1000;
  for (;;) {
    const states = await get<WarmStates>("/cache/warm");
    const cold = states.urls.filter(
      ({ dueInSeconds, last }) => dueInSeconds <= 0 || (last ?? "refreshed") !== "refreshed",
    );
    if (cold.length === 0 || waitSeconds === 0) return states;
    if (performance.now() > giveUpAt) {
      const warm = states.urls.length - cold.length;
      throw new CommandFailure(
        `After ${waitSeconds} s, only ${warm} of ${states.urls.length} answers are warm.`,
      );
    }
    await setTimeout(LOOK_EVERY_MS);
  }
}

function seconds(text: string): string {
  if (/^\d{1,6}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected a number of seconds.");
}
