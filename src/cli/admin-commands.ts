/** The commands that ask a running gateway, as a table: name, options, what is asked, and what is shown of the answer. */
import { setTimeout } from "node:timers/promises";

import { type Command, InvalidArgumentError, Option } from "commander";

import type { Status } from "../admin/status/status.ts";
import { type Client, type ClientOptions, createClient } from "./client.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { print, printSections, type Section } from "./print.ts";
import { addSettingOptions } from "./settings-options.ts";

/** The arguments and options of a command. */
type Given = Readonly<Record<string, string | undefined>>;

interface AdminCommand {
  readonly name: string;
  readonly description: string;
  readonly argument?: readonly [name: string, description: string];
  readonly options?: readonly Option[];
  /** @returns the answer, and the parts of it that people see */
  readonly run: (client: Client, given: Given) => Promise<{ answer: unknown; sections: readonly Section[] }>;
}

const INSTANT = "2026-11-21T07:00Z, 2026-11-21, -24h, -7d or epoch seconds";
const URL_ARGUMENT = "URL or path on the callers' port, in quotes";
const FORMAT = new Option("--format <format>", "v2: the answer frozen to version 2");

const COMMANDS: readonly AdminCommand[] = [
  {
    name: "status",
    description:
      "show what the status page shows: what is wrong, the apps, the budget, whether the API fails",
    async run(client) {
      const status = await client.get<Status>("/status");
      return { answer: status, sections: statusSections(status) };
    },
  },
  {
    name: "explain",
    description: "explain a URL: what is cached, what a request costs, and why requests were not hits",
    argument: ["<url>", URL_ARGUMENT],
    options: [new Option("--app <id>", "the app of the request"), FORMAT],
    async run(client, { url, app, format }) {
      const entry = await client.get<Record<string, unknown>>("/cache/entry", { url, format });
      const quote = await client.get<Record<string, unknown>>("/quote", { url, format, app });
      const history = await client.get<{ requests: unknown[] }>("/cache/history", { url, format });
      const { query, cutFrom, key } = entry;
      const none = ["This process remembers no request for this URL that was not a hit."];
      return {
        answer: { entry, quote, history },
        sections: [
          ["", [entry["says"], quote["says"]]],
          ["", { query, cutFrom, key }],
          [
            "Requests that were not hits, newest first",
            history.requests.length > 0 ? history.requests.slice(0, 10) : none,
          ],
        ],
      };
    },
  },
  {
    name: "usage",
    description: "show the calls to the property API in a period, and whether the limits were kept",
    options: [
      new Option("--from <instant>", `start: ${INSTANT} (default: 24 hours before the end)`),
      new Option("--to <instant>", "end (default: now)"),
      new Option("--by <what>", "what each row sums up").choices(["app", "resource", "hour"]).default("app"),
    ],
    async run(client, { from, to, by = "app" }) {
      const usage = await client.get<Usage>("/usage", { from, to, by });
      return { answer: usage, sections: usageSections(usage) };
    },
  },
  {
    name: "budget",
    description: "show what is left of the budget in each window, the shares, the queue, and open circuits",
    async run(client) {
      const { mode, ...origins } = await client.get<Budget>("/budget");
      const sections = (["api", "images"] as const).flatMap((origin): Section[] => {
        const { windows, apps, circuits, ...rest } = origins[origin];
        const shares = apps.flatMap(({ app, isListed, shares: of }) =>
          of.map((share) => ({ app, listed: isListed, ...share })),
        );
        const title = origin === "api" ? "Property API" : "Thumbnails";
        return [
          [title, windows],
          [`${title}: shares of the apps`, shares],
          ["", rest],
          ["", circuits],
        ];
      });
      return { answer: { mode, ...origins }, sections: [["", { mode }], ...sections] };
    },
  },
  {
    name: "purge",
    description: "declare cached answers out of date: one URL, or the answers that an option selects",
    argument: ["[url]", URL_ARGUMENT],
    options: [
      new Option("--key <key>", "key of an answer, as explain shows it"),
      new Option("--resource <name>", "listings, sold, areas or images"),
      new Option("--tag <tag>", "an area or a record: area:76, record:123"),
      new Option("--all", "every answer"),
      new Option("--hard", "never serve them again, not even as stale answers"),
      FORMAT,
    ],
    async run(client, { url, key, resource, tag, all, hard, format }) {
      const scopes = Object.entries({ url, key, resource, tag, all }).filter(
        ([, value]) => value !== undefined,
      );
      if (scopes.length !== 1)
        throw new CommandFailure("Give one of: a URL, --key, --resource, --tag, --all.", EXIT.usage);
      const body = { ...Object.fromEntries(scopes), ...(format && { format }), ...(hard && { hard }) };
      const answer = await client.post<{ says: string }>("/cache/purge", body);
      return { answer, sections: [["", answer.says]] };
    },
  },
  {
    name: "warm",
    description: "show the state of the answers that are kept warm",
    options: [
      new Option("--wait", "wait until each of them is in the cache"),
      new Option("--timeout <seconds>", "longest time to wait").argParser(seconds).default("300"),
    ],
    async run(client, { wait, timeout }) {
      const urls = await warmStates(client, wait === undefined ? undefined : Number(timeout));
      const empty = ["The warm list is empty. List URLs under warm in the settings."];
      return { answer: { urls }, sections: [["", urls.length > 0 ? urls : empty]] };
    },
  },
  {
    name: "reload",
    description: "read the settings again; all of them apply, or none",
    async run(client) {
      const answer = await client.post<{ changes: readonly object[] }>("/config/reload", {});
      const { changes } = answer;
      return {
        answer,
        sections: [["The settings are in force. Changed:", changes.length > 0 ? changes : ["nothing"]]],
      };
    },
  },
  {
    name: "try",
    description: "try at once whether the API is back: the next call is a probe of every open circuit",
    async run(client) {
      const answer = await client.post<{ tried: readonly string[] }>("/circuits/try", {});
      const { tried } = answer;
      return { answer, sections: [["", tried.length > 0 ? tried : ["No circuit is open."]]] };
    },
  },
];

/** Adds the commands of the table to the program. */
export function addAdminCommands(program: Command): void {
  for (const { name, description, argument, options = [], run } of COMMANDS) {
    const command = program.command(name).description(description);
    if (argument !== undefined) command.argument(...argument);
    for (const option of options) command.addOption(option);
    addSettingOptions(command, ["config"])
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
        const { json, ...given }: ClientOptions & { readonly json?: true } = command.opts();
        const [url] = command.args;
        const { answer, sections } = await run(createClient(given), { ...given, ...(url && { url }) });
        if (json) print(JSON.stringify(answer, null, 2));
        else printSections(sections);
      });
  }
}

const MARKS = { bad: "PROBLEM", warn: "WATCH", good: "GOOD" };

function statusSections(status: Status): Section[] {
  const { sentences, scope, processes, sinceAt, mode, apps, budget, queue, upstream } = status;
  const { saved, asked, problems } = status;
  const origins = Object.entries(budget);
  return [
    ["", sentences.map(({ level, text }) => `${MARKS[level]}: ${text}`)],
    ["", { countedBy: scope, processes: processes.length, since: sinceAt, budget: mode, queue }],
    ["Apps in the last hour", apps.map((app) => without(app, "shares", "weight", "userAgent"))],
    ["Budget", origins.flatMap(([origin, { windows }]) => windows.map((window) => ({ origin, ...window })))],
    ["Property API", Object.entries(upstream).map(([resource, state]) => ({ resource, ...state }))],
    ["Circuits", origins.flatMap(([, { circuits }]) => circuits)],
    ["Requests that needed no call", saved],
    ["Most requested", asked.slice(0, 10)],
    ["Recent problems", problems],
  ];
}

function without(of: object, ...names: readonly string[]): object {
  return Object.fromEntries(Object.entries(of).filter(([name]) => !names.includes(name)));
}

interface Usage {
  readonly from: string;
  readonly to: string;
  readonly completeSince?: string;
  readonly by: string;
  readonly totals: object;
  readonly rows: readonly object[];
  readonly windows: readonly { readonly kept: boolean | "unknown" }[];
  readonly unrecorded?: { readonly since: string; readonly until: string };
}

function usageSections({ from, to, completeSince, by, totals, rows, windows, unrecorded }: Usage): Section[] {
  return [
    ["", { period: `${from} to ${to}`, completeSince, callsNotRecorded: unrecorded }],
    ["", [...rows, { [by]: "total", ...totals }]],
    ["Highest rolling windows against their limits", windows.map((window) => without(window, "limits"))],
  ];
}

interface Budget extends Readonly<Record<"api" | "images", Origin>> {
  readonly mode: string;
}

interface Origin {
  readonly windows: readonly object[];
  readonly apps: readonly {
    readonly app: string;
    readonly isListed: boolean;
    readonly shares: readonly object[];
  }[];
  readonly circuits: readonly object[];
}

interface WarmState {
  readonly dueInSeconds: number;
  readonly last: string | null;
}

const LOOK_EVERY_MS = 500;

/** @param waitSeconds how long to wait until every answer is warm */
async function warmStates(client: Client, waitSeconds = 0): Promise<readonly WarmState[]> {
  const giveUpAt = performance.now() + waitSeconds * 1000;
  for (;;) {
    const { urls } = await client.get<{ urls: readonly WarmState[] }>("/cache/warm");
    const cold = urls.filter(
      ({ dueInSeconds, last }) => dueInSeconds <= 0 || (last ?? "refreshed") !== "refreshed",
    );
    if (cold.length === 0 || waitSeconds === 0) return urls;
    if (performance.now() > giveUpAt) {
      const warm = urls.length - cold.length;
      throw new CommandFailure(`After ${waitSeconds} s, only ${warm} of ${urls.length} answers are warm.`);
    }
    await setTimeout(LOOK_EVERY_MS);
  }
}

function seconds(text: string): string {
  if (/^\d{1,6}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected a number of seconds.");
}
