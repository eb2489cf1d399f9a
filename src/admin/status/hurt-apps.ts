/** Which apps are hurt: by what, and since when. The sentences and the list of apps say it in the same words. */
import { OTHER_APP } from "../../telemetry/events.ts";
import { clockText, listed, many } from "../page/format.js";
import type { RecentProblem } from "./recent-problems.ts";
import type { AppStatus } from "./facts.ts";

/** Errors or stale answers that an app got for one reason, from `firstAt` on. */
export type Harm = RecentProblem & {
  readonly app: string;
  readonly resource: NonNullable<RecentProblem["resource"]>;
  readonly status: number;
};

/** Older harm is over. */
const HARM_LASTS_MS = 10 * 60_000;
const MOST_NAMED = 3;

/** @returns the harm of the last ten minutes, without the mistakes of the apps themselves */
export function harmsIn(problems: readonly RecentProblem[], at: number): Harm[] {
  return problems
    .filter(({ ended, lastAt }) => ended !== "mistakes" && at - lastAt < HARM_LASTS_MS)
    .filter((problem): problem is Harm => problem.from === "caller");
}

/** A stale 404 is no error. */
export function isError({ ended, status }: Harm): boolean {
  return ended !== "stale" && status >= 400;
}

/** @returns what the apps get, such as `502 or 503`, and since when. Stale answers count if there are no errors. */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
function worstOf(hurt: readonly Harm[]) {
  const errors = hurt.filter(isError);
  const worst = errors.length > 0 ? errors : hurt;
  const statuses = [...new Set(worst.map(({ status }) => String(status)))].sort();
  const what = errors.length > 0 ? listed(statuses, "or") : "stale answers";
  return { worst, what, since: Math.min(...worst.map(({ firstAt }) => firstAt)) };
}

/** @returns for example `web and ios get 502 since 22:38:41 UTC:` */
export function hurtText(hurt: readonly Harm[], since: number | undefined, now: number): string {
  if (hurt.length === 0)
    return `No app is hurt by this so far, but${since === undefined ? "" : ` since ${clockText(since, now)}`}`;
  const { worst, what, since: firstAt } = worstOf(hurt);
  const counts = new Map<string, number>();
  for (const { app, count } of worst) counts.set(app, (counts.get(app) ?? 0) + count);
  const apps = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).map(([app]) => app);
  const names = apps.slice(0, MOST_NAMED).map((app) => (app === OTHER_APP ? "unidentified apps" : app));
  const more = apps.length - MOST_NAMED;
  const who = listed(more > 0 ? [...names, many(more, "more app")] : names, "and");
  const verb = apps.length === 1 && apps[0] !== OTHER_APP ? "gets" : "get";
  return `${who} ${verb} ${what} since ${clockText(firstAt, now)}:`;
}

/** The worst first. */
const LEVELS = ["error", "stale", "none"] as const;

/**
 * Adds the harm that the sentences explain, for example `gets 502`.
 * @returns the apps that get errors first, then those that get stale answers
 */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function withHarm(apps: readonly AppStatus[], harms: readonly Harm[]) {
  const all = apps.map(({ app, ...rest }) => {
    const hurt = harms.filter((harm) => harm.app === app);
    if (hurt.length === 0)
      return { app, state: calmState(rest), hurtSince: null, harm: "none" as const, ...rest };
    const { what, since } = worstOf(hurt);
    const harm = hurt.some(isError) ? ("error" as const) : ("stale" as const);
    return { app, state: `gets ${what}`, hurtSince: since, harm, ...rest };
  });
  return LEVELS.flatMap((level) => all.filter(({ harm }) => harm === level));
}

const calmState = ({ cached, stale, fetched }: Omit<AppStatus, "app">): string =>
  cached + stale + fetched > 0 ? "is answered" : "no answer";
