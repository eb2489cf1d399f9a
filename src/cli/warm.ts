import { setTimeout } from "node:timers/promises";

import { type Command, InvalidArgumentError } from "commander";

import { addAdminOptions, type AdminClient, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { CommandFailure } from "./exit.ts";
import { createProgress, print, printJson, table } from "./print.ts";

interface WarmOptions extends AdminOptions {
  readonly wait?: true;
  readonly timeout: number;
}

interface WarmState {
  readonly query: string;
  readonly format: string;
  readonly app: string;
  readonly everySeconds: number | null;
  readonly dueInSeconds: number;
  readonly last: string | null;
}

/** `warm`: the state of the warm list. */
export function addWarm(program: Command): void {
  const command = program
    .command("warm")
    .description("show the state of the answers that are kept warm (warm)")
    .option("--wait", "wait until each of them is in the cache")
    .option("--timeout <seconds>", "longest time to wait", seconds, 300)
    .action(warm);
  addAdminOptions(command);
}

async function warm(options: WarmOptions): Promise<void> {
  const client = createAdminClient(options);
  const states = options.wait ? await waitUntilWarm(client, options.timeout) : await statesOf(client);
  if (options.json) return printJson({ urls: states });
  if (states.length === 0) return print("The warm list is empty. List URLs under warm in the settings.");
  print(
    table(
      ["query", "format", "app", "every s", "due in s", "last fetch"],
      states.map(({ query, format, app, everySeconds, dueInSeconds, last }) => [
        query,
        format,
        app,
        everySeconds,
        dueInSeconds,
        last ?? "none yet",
      ]),
    ),
  );
}

async function statesOf(client: AdminClient): Promise<readonly WarmState[]> {
  return (await client.get<{ urls: readonly WarmState[] }>("/cache/warm")).urls;
}

const LOOK_EVERY_MS = 500;

async function waitUntilWarm(client: AdminClient, timeoutSeconds: number): Promise<readonly WarmState[]> {
  const giveUpAt = performance.now() + timeoutSeconds * 1000;
  let states = await statesOf(client);
  const progress = createProgress(process.stderr, states.length);
  try {
    for (;;) {
      const warmOnes = states.filter(isWarm).length;
      progress.show(warmOnes);
      if (warmOnes === states.length) return states;
      if (performance.now() > giveUpAt) {
        throw new CommandFailure(
          `After ${timeoutSeconds} s, only ${warmOnes} of ${states.length} answers are warm.`,
        );
      }
      await setTimeout(LOOK_EVERY_MS);
      states = await statesOf(client);
    }
  } finally {
    progress.end();
  }
}

/** Due later, and not because a failed fetch is to be tried again. */
function isWarm({ dueInSeconds, last }: WarmState): boolean {
  return dueInSeconds > 0 && (last === null || last === "refreshed");
}

function seconds(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Expected a number of seconds.");
}
