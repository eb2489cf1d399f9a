import type { Command } from "commander";

import type { Status } from "../admin/status/status.ts";
import { addAdminOptions, type AdminOptions, createAdminClient } from "./admin-client.ts";
import { instant, inWords, nextTry, print, printJson, SCOPES, table } from "./print.ts";

/** `status`: what the status page shows, as text. */
export function addStatus(program: Command): void {
  const command = program
    .command("status")
    .description(
      "show the state of the gateway: budget, apps, savings, whether the API fails and since when, problems",
    )
    .action(async (options: AdminOptions) => {
      const status = await createAdminClient(options).get<Status>("/status");
      if (options.json) printJson(status);
      else show(status);
    });
  addAdminOptions(command);
}

function show(status: Status): void {
  const { scope, processes, sinceAt, mode } = status;
  print(`Counts of ${SCOPES[scope]} (${processes.length}) since ${instant(sinceAt)}. Budget mode: ${mode}.`);
  const sections = [
    ["Budget", budgetTable(status)],
    ["Property API", upstreamLines(status)],
    ["Saved", savedLines(status)],
    ["Apps", appsTable(status)],
    ["Most requested", askedTable(status)],
    ["Recent problems", problemsTable(status)],
  ] as const;
  for (const { what, since: from, cause, meanwhile } of status.outages) {
    print(`OUT OF ORDER since ${since(from, status.at)}: ${what}: ${cause}. ${meanwhile}`);
  }
  for (const [title, text] of sections) print(`\n${title}\n${text}`);
}

function budgetTable({ budget, queue }: Status): string {
  const rows = Object.entries(budget).flatMap(([origin, { windows }]) =>
    windows.map(({ name, limit, remaining, comesBack, emptyInMs }) => [
      origin === "images" ? `images/${name}` : name,
      limit,
      remaining,
      comesBack.map(({ calls, inMs }) => `${calls} in ${inWords(inMs)}`).join(", ") || "-",
      emptyInMs === null ? "-" : `empty in ${inWords(emptyInMs)}`,
    ]),
  );
  const waiting = Object.values(queue)
    .flatMap((of) => Object.values(of))
    .reduce((sum, of) => sum + of, 0);
  const { predictedWaitMs, waitsFor } = budget.api;
  const wait =
    predictedWaitMs === 0
      ? "a call can be made now"
      : `a call waits ${inWords(predictedWaitMs)} (${waitsFor ?? "queue"})`;
  return `${table(["window", "limit", "left", "comes back", "forecast"], rows)}\nQueue: ${waiting}; ${wait}.`;
}

function upstreamLines({ upstream, budget, at }: Status): string {
  const resources = Object.entries(upstream).map(([name, state]) => {
    const { calls, failed, answeredMs, failingSince, lastFailure } = state;
    const mean = calls > failed ? `, ${inWords(answeredMs / (calls - failed))} each` : "";
    const health =
      failingSince === null ? "answers" : `FAILS since ${since(failingSince, at)}: ${lastFailure ?? "?"}`;
    return `${name}: ${health}; ${calls} calls, ${failed} failed${mean}`;
  });
  const circuits = Object.entries(budget).flatMap(([origin, of]) =>
    of.circuits.map(
      ({ scope, state, cause, since: from, until }) =>
        `circuit ${origin}/${scope}: ${state} since ${since(from, at)}, ${cause}; ${nextTry(state, until - at)}`,
    ),
  );
  return [...resources, ...circuits].join("\n") || "no calls in the last hour";
}

function savedLines({ saved, outcomes }: Status): string {
  const sum = (counts: Readonly<Record<string, number>>): number =>
    Object.values(counts).reduce((total, count) => total + count, 0);
  const [needless, requests] = [sum(saved), sum(outcomes)];
  if (requests === 0) return "no requests in the last hour";
  const reasons = Object.entries(saved).map(([reason, count]) => `${reason} ${count}`);
  const part = Math.floor((100 * needless) / requests);
  return `${needless} of ${requests} requests (${part} %) needed no call: ${reasons.join(", ") || "none"}`;
}

function appsTable({ apps, budget }: Status): string {
  const windows = budget.api.windows.map(({ name }) => name);
  const rows = apps.map(({ app, isListed, weight, requests, saved, refused, spent }) => [
    app,
    isListed ? "yes" : "no",
    weight,
    requests,
    saved,
    refused,
    ...windows.map((name) => spent[name] ?? 0),
  ]);
  const head = ["app", "listed", "weight", "requests", "saved", "refused"];
  return table([...head, ...windows.map((name) => `calls ${name}`)], rows);
}

function askedTable({ asked }: Status): string {
  return table(
    ["requests", "query"],
    asked.slice(0, 10).map(({ key, count }) => [count, key]),
  );
}

function problemsTable({ problems }: Status): string {
  return table(
    ["times", "last", "what", "query"],
    problems.map(({ count, lastAt, what, query }) => [count, instant(lastAt), what, query]),
  );
}

function since(at: number, now: number): string {
  return `${instant(at)} (${inWords(Math.max(1_000, now - at))})`;
}
