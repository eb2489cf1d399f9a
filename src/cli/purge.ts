import type { Command } from "commander";

import { addAdminOptions, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { print, printJson } from "./print.ts";

interface PurgeOptions extends AdminOptions {
  readonly key?: string;
  readonly resource?: string;
  readonly tag?: string;
  readonly all?: true;
  readonly hard?: true;
  readonly format?: string;
}

interface Purged {
  /** The kind of the scope, and under that name what it is. */
  readonly purged: { readonly kind: string } & Readonly<Record<string, string>>;
}

/** `purge`: declares answers out of date. */
export function addPurge(program: Command): void {
  const command = program
    .command("purge")
    .description("declare cached answers out of date: one URL, or the answers that an option selects")
    .argument("[url]", "URL or path on the callers' port, in quotes")
    .option("--key <key>", "key of an answer, as explain shows it")
    .option("--resource <name>", "listings, sold, areas or images")
    .option("--tag <tag>", "an area or a record: area:76, record:123")
    .option("--all", "every answer")
    .option("--hard", "never serve them again, not even as stale answers")
    .option("--format <format>", "with a URL: v2 for the answer frozen to version 2")
    .action(purge);
  addAdminOptions(command);
}

async function purge(url: string | undefined, options: PurgeOptions): Promise<void> {
  const { key, resource, tag, all, hard, format } = options;
  const scopes = Object.entries({ url, key, resource, tag, all }).filter(([, value]) => value !== undefined);
  if (scopes.length !== 1) {
    throw new CommandFailure("Give one of: a URL, --key, --resource, --tag, --all.", EXIT.usage);
  }
  const body = { ...Object.fromEntries(scopes), ...(format && { format }), ...(hard && { hard }) };
  const answer = await createAdminClient(options).post<Purged>("/cache/purge", body);
  if (options.json) return printJson(answer);
  const how = hard
    ? "The answers are never served again."
    : "The answers are stale until they are refreshed.";
  const { kind } = answer.purged;
  const what = kind === "all" ? "everything" : `the ${kind} ${answer.purged[kind]}`;
  print(`Purged ${what}. ${how}`);
}
