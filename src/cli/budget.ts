import type { Command } from "commander";

import { addAdminOptions, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { instant, inWords, nextTry, print, printJson, table } from "./print.ts";

/** `budget`: what is left in each window. */
export function addBudget(program: Command): void {
  const command = program
    .command("budget")
    .description("show what is left of the budget in each window, the queue, and open circuits")
    .action(async (options: AdminOptions) => {
      const budget = await createAdminClient(options).get<Budget>("/budget");
      if (options.json) printJson(budget);
      else show(budget);
    });
  addAdminOptions(command);
}

interface Origin {
  readonly mode: string;
  readonly windows: readonly {
    readonly name: string;
    readonly limit: number;
    readonly spent: number;
    readonly remaining: number;
    readonly comesBack: readonly { readonly calls: number; readonly inMs: number }[];
    readonly byApp: Readonly<Record<string, number>>;
  }[];
  readonly apps: readonly {
    readonly app: string;
    readonly isListed: boolean;
    readonly shares: readonly {
      readonly name: string;
      readonly limit: number;
      readonly remaining: number;
      readonly resetSeconds: number;
    }[];
  }[];
  readonly queue: Readonly<Record<string, number>>;
  readonly predictedWaitMs: number;
  readonly waitsFor: string | null;
  readonly circuits: readonly {
    readonly scope: string;
    readonly state: string;
    readonly cause?: string;
    readonly sinceMs: number;
    readonly forMs: number;
  }[];
}

interface Budget {
  readonly mode: string;
  readonly api: Origin;
  readonly images: Origin;
}

function show({ mode, api, images }: Budget): void {
  print(`Mode: ${mode}`);
  for (const [title, origin] of [
    ["API", api],
    ["Thumbnails", images],
  ] as const) {
    print(`\n${title} (${origin.mode})`);
    print(
      table(
        ["window", "limit", "spent", "left", "comes back", "by app"],
        origin.windows.map(({ name, limit, spent, remaining, comesBack, byApp }) => [
          name,
          limit,
          spent,
          remaining,
          comesBack.map(({ calls, inMs }) => `${calls} in ${inWords(inMs)}`).join(", ") || "-",
          Object.entries(byApp)
            .map(([app, sends]) => `${app} ${sends}`)
            .join(", ") || "-",
        ]),
      ),
    );
    if (origin.apps.length > 0) print(`\n${appsTable(origin)}`);
    const queue = Object.entries(origin.queue).map(([priority, length]) => `${priority} ${length}`);
    print(`Queue: ${queue.join(", ")}`);
    const { predictedWaitMs, waitsFor } = origin;
    print(
      predictedWaitMs === 0
        ? "A call can be made now."
        : `The next call can be made in ${inWords(predictedWaitMs)} (${waitsFor ?? "queue"}).`,
    );
    for (const { scope, state, cause, sinceMs, forMs } of origin.circuits) {
      const why = cause === undefined ? "" : `: ${cause}`;
      const since = `${instant(Date.now() - sinceMs)} (${inWords(Math.max(1_000, sinceMs))})`;
      print(`Circuit ${scope}: ${state} since ${since}${why}; ${nextTry(state, forMs)}`);
    }
  }
}

function appsTable({ apps }: Origin): string {
  const rows = apps.flatMap(({ app, isListed, shares }) =>
    shares.map(({ name, limit, remaining, resetSeconds }) => [
      isListed ? app : `${app} (not listed)`,
      name,
      limit,
      remaining,
      inWords(resetSeconds * 1_000),
    ]),
  );
  return table(["app", "window", "share", "left", "more in"], rows);
}
