/** Decides from the facts which sentences are true. A case has the apps that are hurt, and the values in the sentence. */
import { Problem, PROBLEM_CODES } from "../../errors.ts";
import { type OriginName, ORIGINS, resourcesOf } from "../../interface/resources.ts";
import { clockText, count, duration, listed, soon } from "../page/format.js";
import { type Facts, requestsOf } from "./facts.ts";
import { type Harm, isError } from "./hurt-apps.ts";

/** A case in which the sentence of a row is true. */
interface Case {
  /** Distinguishes several cases of the same row. */
  readonly key?: string | undefined;
  /** When the case began, if that is known. The sentence shows it only if no app is hurt. */
  readonly since?: number | undefined;
  readonly hurt?: readonly Harm[];
  readonly values?: Readonly<Record<string, string>>;
}

/** The facts, and how the rows divide the harm among them. */
interface Situation extends Facts {
  readonly harms: readonly Harm[];
  /** @returns the harm that a case explains. Later rows no longer see this harm. */
  readonly explain: (isCaused: (harm: Harm) => boolean, since?: number) => readonly Harm[];
}

/** Older harm has ended, unless its cause lasts. A cause also explains harm that came up to this long before it was known. */
export const RECENT_MS = 60_000;

const isOfBudget = ({ what }: Harm): boolean =>
  ["budget-unavailable", "temporary-reduced-capacity", "quota-exceeded"].includes(what);

/** @returns whether a failing API causes this harm: because it refuses our key, or for other reasons */
function isOfApi(harm: Harm, why: string): boolean {
  const isOfKey = harm.what === "upstream-authentication-failed";
  return isOfKey === (why === "credentials") && (isOfCalls(harm) || harm.what === "deadline-exceeded");
}

/** @returns whether a failing API caused this harm, and has answered since */
const isAnswered = (harm: Harm): boolean => harm.isAnswered && isOfCalls(harm);

const isOfCalls = ({ what }: Harm): boolean => what.startsWith("upstream-");

/** @returns whether a fault of Redis that began at `since` causes this harm. `quota-exceeded` from before it has another cause. */
const isOfRedis = (harm: Harm, since: number): boolean =>
  isOfBudget(harm) && (harm.what !== "quota-exceeded" || harm.lastAt >= since);

/**
 * Circuits of an origin are not closed: one case for all its resources.
 * @param why the cause of the circuits
 */
function failing({ budget, at, upstream, explain }: Situation, why: string): Case[] {
  return ORIGINS.flatMap((origin) => {
    const circuits = budget[origin].circuits.filter(({ cause }) => cause === why);
    if (circuits.length === 0) return [];
    const all = resourcesOf(origin);
    const resources = all.filter((one) => circuits.some(({ scope }) => scope === "origin" || scope === one));
    const since = Math.min(...circuits.map((circuit) => circuit.since));
    const next = Math.min(...circuits.map(({ state, until }) => (state === "open" ? until : at)));
    const failed = resources.flatMap((one) => upstream[one] ?? []).filter((one) => one.failingSince !== null);
    const failures = new Set(failed.flatMap((one) => one.lastFailure ?? []));
    const names = resources.map((one) => (one === "sold" ? "sold records" : one));
    const api = names.length === all.length ? "the API" : `the API for ${listed(names, "and")}`;
    const isOfThese = ({ resource }: Harm): boolean => resources.some((one) => one === resource);
    // While a circuit is open, single calls may be answered. That does not end the harm since it opened.
    const isOver = (harm: Harm): boolean => isAnswered(harm) && harm.lastAt < since;
    const hurt = explain((harm) => isOfThese(harm) && isOfApi(harm, why) && !isOver(harm), since);
    const values = {
      api: origin === "images" ? "the image server" : api,
      next: next > at ? `The next try is in ${soon(next - at)}.` : "The next call is a try.",
      failure: failures.size === 0 ? "" : ` (${[...failures].join(", ")})`,
    };
    return [{ key: origin, since, hurt, values }];
  });
}

/** Outages that callers do not notice. */
const MINOR = /^the (?:cache on disk|trace collector)$/;

/** One case for each kind of outage. An outage limits what apps get only if this process cannot use the shared budget. */
function outages(now: Situation, isMinor: boolean): Case[] {
  const all = now.outages.filter(({ what }) => MINOR.test(what) === isMinor);
  // Redis usually refuses the commands of both budgets. One sentence is enough.
  const byName = new Map(all.map((outage) => [outage.what.replace(/ \(\w+\)$/, ""), outage]));
  return [...byName].map(([what, { cause, meanwhile, since }]) => ({
    key: what,
    since,
    hurt: now.explain((harm) => isCutOff(now) && isOfRedis(harm, since), since),
    // The cause may begin with the name of an operation, such as `set: `.
    values: { what, cause: cause.replace(/^\w+: |\.$/g, ""), meanwhile },
  }));
}

/** Apps get a problem that no earlier row explains. */
function hurtBy({ explain }: Situation, problem: string, key?: string): Case[] {
  const hurt = explain((harm) => harm.what === problem && !isAnswered(harm));
  return hurt.length === 0 ? [] : [{ key, hurt }];
}

/** Whether this process cannot use the shared budget. */
function isCutOff({ budget }: Facts): boolean {
  return ORIGINS.some((origin) => ["joining", "degraded"].includes(budget[origin].mode));
}

/** Apps that are refused because they have spent their `perDay`. */
function daySpent({ apps, explain }: Situation): Case[] {
  const shares = apps.flatMap(({ app, shares }) => shares.map((share) => ({ app, ...share })));
  const spent = shares.filter(({ name, remaining }) => name === "per-day" && remaining < 1);
  const resets = new Map(spent.map(({ app, resetSeconds }) => [app, resetSeconds * 1_000]));
  const hurt = explain(({ what, app }) => what === "quota-exceeded" && resets.has(app));
  const next = Math.min(...hurt.map(({ app }) => resets.get(app) ?? 0));
  return hurt.length === 0 ? [] : [{ hurt, values: { next: soon(next) } }];
}

/** @returns each window of both budgets as a case */
function windowsIn({ budget, mode }: Facts) {
  return ORIGINS.flatMap((origin) =>
    budget[origin].windows.map((window) => {
      const { name, limit, spent, remaining, heldBack, emptyInMs, comesBack } = window;
      const waitMs = remaining >= 1 ? 0 : (comesBack[0]?.inMs ?? 0);
      const values = {
        budget: origin === "images" ? "image budget" : "budget",
        window: name,
        spent: count(spent),
        limit: count(limit),
        remaining: count(remaining),
        orCalls: remaining >= 1 || mode === "observe" ? " or budget.concurrency" : "",
        held: heldBack >= 1 ? `, ${count(heldBack)} kept for other processes` : "",
        next: waitMs === 0 ? "" : ` The next call is free in ${soon(waitMs)}.`,
        in: duration(emptyInMs ?? 0),
      };
      return { ...window, origin, key: `${origin} ${name}`, isExceeded: spent >= limit + 1, waitMs, values };
    }),
  );
}

/** @returns the harm of requests that the budget of an origin refused */
function refusedBy(origin: OriginName, { explain }: Situation): readonly Harm[] {
  const isOfOrigin = ({ resource }: Harm): boolean => (resource === "images") === (origin === "images");
  return explain((harm) => harm.what === "temporary-reduced-capacity" && isOfOrigin(harm));
}

/** Requests were refused in the last minute, because a window was spent, or too many calls were in flight. */
function budgetSpent(now: Situation): Case[] {
  return ORIGINS.flatMap((origin) => {
    const hurt = refusedBy(origin, now);
    // If several windows are spent: the one whose next call is free last.
    const [tightest] = windowsIn(now)
      .filter((window) => window.origin === origin)
      .sort((a, b) => b.waitMs - a.waitMs || a.remaining / a.limit - b.remaining / b.limit);
    return hurt.length === 0 ? [] : [{ ...tightest, key: origin, hurt }];
  });
}

/** A window is spent, and no request has been refused in the last minute. */
function budgetEmpty(now: Situation): Case[] {
  if (now.harms.some((harm) => isOfBudget(harm) && now.at - harm.lastAt < RECENT_MS)) return [];
  return windowsIn(now).filter(({ origin, remaining, isExceeded }) => {
    const { mode } = now.budget[origin];
    const isKnown = mode !== "joining" && (mode !== "degraded" || now.outages.length === 0);
    return isKnown && remaining < 1 && !isExceeded;
  });
}

/**
 * Errors of the last minute, and stale answers because calls failed, that no other row explains. They do not count if their
 * cause is over.
 */
function unexplained({ explain }: Situation): Case[] {
  const left = explain((harm) => (isError(harm) || isOfCalls(harm)) && !isAnswered(harm));
  return [...Map.groupBy(left, ({ what }) => what)].map(([problem, hurt]) => {
    const code = PROBLEM_CODES.find((one) => one === problem);
    const title = code === undefined ? "Error" : new Problem(code).message;
    return { key: problem, hurt, values: { problem, title } };
  });
}

/** The cases that are true now, by the id of their sentence. */
export const CONDITIONS: Readonly<Record<string, (now: Situation) => readonly Case[]>> = {
  "key-refused"(now) {
    const open = failing(now, "credentials");
    // Some calls are refused before a circuit opens.
    return open.length > 0 ? open : hurtBy(now, "upstream-authentication-failed", "api");
  },
  "api-unreachable": (now) => failing(now, "unreachable"),
  "api-unavailable": (now) => failing(now, "unavailable"),
  "api-slow-down": (now) => failing(now, "too-many-requests"),
  "api-failing": (now) => failing(now, "failing"),
  outage: (now) => outages(now, false),
  "budget-exceeded": (now) =>
    windowsIn(now)
      .filter(({ isExceeded }) => isExceeded)
      .map((one) => ({ ...one, hurt: now.mode === "observe" ? [] : refusedBy(one.origin, now) })),
  // The shared budget is closed, although Redis works. If it is open again, the harm is over.
  "shared-budget": (now) => hurtBy(now, "budget-unavailable").filter(() => isCutOff(now)),
  "day-spent": daySpent,
  "share-spent": (now) => hurtBy(now, "quota-exceeded"),
  "budget-spent": budgetSpent,
  errors: unexplained,
  "minor-outage": (now) => outages(now, true),
  "budget-empty": budgetEmpty,
  "budget-ends": (now) =>
    windowsIn(now).filter((one) => now.mode === "enforce" && one.emptyInMs !== null && one.remaining >= 1),
  observed: ({ mode }) => (mode === "observe" ? [{}] : []),
  "nothing-yet": ({ requests, sinceAt, at }) =>
    requestsOf(requests) > 0 ? [] : [{ values: { from: clockText(sinceAt, at) } }],
  "all-well": () => [{}],
};
