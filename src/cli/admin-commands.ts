/** The commands that ask a running gateway, as a table: options, and what is asked. `print-table.ts` shows the answers. */
import { type Command, Option } from "commander";

import { type Client, createClient, type Given } from "./client.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { print, printAnswer } from "./print-table.ts";
import { addSettingOptions } from "./settings-options.ts";

interface AdminCommand {
  /** With its argument, if it has one. */
  readonly name: string;
  readonly does: string;
  readonly options?: readonly Option[];
  /** @returns the answer of the admin port */
  readonly ask: (client: Client, given: Given) => Promise<object>;
  /** Members of the answer that only `--json` shows: they are long, or in another member, too. */
  readonly hidden?: string;
}

const MARKS: Readonly<Record<string, string>> = { bad: "PROBLEM", warn: "WATCH", good: "GOOD" };
const INSTANT = "2026-11-21T07:00Z, 2026-11-21, -24h, -7d or epoch seconds";
const URL_IS = "URL or path on the callers' port, in quotes";
const FORMAT = new Option("--format <format>", "v2: the answer frozen to version 2");

const COMMANDS: readonly AdminCommand[] = [
  {
    name: "status",
    does: "show what the status page shows: what is wrong, the apps, the budget, whether the API fails",
    async ask({ get }) {
      const status = await get<{ sentences: readonly { level: string; text: string }[] }>("/status");
      return { ...status, says: status.sentences.map(({ level, text }) => `${MARKS[level] ?? ""}: ${text}`) };
    },
    hidden: "at sentences harm series requests perSecond slowest asked shares isListed weight isAnswered",
  },
  {
    name: "explain <url>",
    does: `explain a URL: what is cached, what a request costs, and why requests were not hits (${URL_IS})`,
    options: [new Option("--app <id>", "the app of the request"), FORMAT],
    ask: async ({ get }, { argument: url, app, format }) => ({
      entry: await get("/cache/entry", { url, format }),
      quote: await get("/quote", { url, format, app }),
      history: await get("/cache/history", { url, format }),
    }),
    hidden: "tags etag codings",
  },
  {
    name: "usage",
    does: "show the calls to the property API in a period, and whether the limits were kept",
    options: [
      new Option("--from <instant>", `start: ${INSTANT} (default: 24 hours before the end)`),
      new Option("--to <instant>", "end (default: now)"),
      new Option("--by <what>", "what each row sums up").choices(["app", "resource", "hour"]).default("app"),
    ],
    async ask({ get }, { from, to, by = "app" }) {
      const usage = await get<{ rows: readonly object[]; totals: object }>("/usage", { from, to, by });
      return { ...usage, rows: [...usage.rows, { [by]: "total", ...usage.totals }] };
    },
    hidden: "limits totals",
  },
  {
    name: "budget",
    does: "show what is left of the budget in each window, the shares, the queue, and open circuits",
    ask: ({ get }) => get("/budget"),
    hidden: "windowSeconds resetSeconds",
  },
  {
    name: "purge [url]",
    does: `declare cached answers out of date: one URL (${URL_IS}), or the answers that an option selects`,
    options: [
      new Option("--key <key>", "key of an answer, as explain shows it"),
      new Option("--resource <name>", "listings, sold, areas or images"),
      new Option("--tag <tag>", "an area or a record: area:76, record:123"),
      new Option("--all", "every answer"),
      new Option("--hard", "never serve them again, not even as stale answers"),
      FORMAT,
    ],
    async ask({ post }, { argument: url, key, resource, tag, all, hard, format }) {
      const scopes = Object.entries({ url, key, resource, tag, all }).filter(([, value]) => value);
      if (scopes.length !== 1)
        throw new CommandFailure("Give one of: a URL, --key, --resource, --tag, --all.", EXIT.usage);
      return await post("/cache/purge", { ...Object.fromEntries(scopes), hard, format });
    },
  },
  {
    name: "warm",
    does: "show the state of the answers that are kept warm",
    ask: ({ get }) => get("/cache/warm"),
  },
  {
    name: "reload",
    does: "read the settings again; all of them apply, or none",
    ask: ({ post }) => post("/config/reload", {}),
  },
  {
    name: "backup <file>",
    does: "write a copy of the SQLite file of a running gateway into a new file",
    async ask({ save }, { argument: file = "" }) {
      await save("/backup", file);
      const next = "Before you restore it, read docs/operations.md.";
      return { says: `${file} has the answers, the purges and the ledger. ${next}` };
    },
  },
  {
    name: "try",
    does: "try at once whether the API is back: the next call is a probe of every open circuit",
    ask: ({ post }) => post("/circuits/try", {}),
  },
];

const EVERY_COMMAND: readonly Option[] = [
  new Option("--admin-url <url>", "admin port (default: admin.host and admin.port of the settings)"),
  new Option("--token-file <file>", "file with the admin token (default: ADMIN_TOKEN or the settings)"),
  new Option("--json", "print JSON"),
];

/** Adds the commands to the program. */
export function addAdminCommands(program: Command): void {
  for (const { name, does, options = [], ask, hidden } of COMMANDS) {
    const command = addSettingOptions(program.command(name).description(does), ["config"]);
    for (const option of [...options, ...EVERY_COMMAND]) command.addOption(option);
    command.action(async () => {
      const given: Given = { ...command.opts<Given>(), argument: command.args[0] };
      const answer = await ask(createClient(given), given);
      if (given["json"]) print(JSON.stringify(answer, null, 2));
      else printAnswer(answer, hidden?.split(" "));
    });
  }
}
