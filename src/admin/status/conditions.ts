/** Decides from the facts which sentences are true. A case has the apps that are hurt, and the values in the sentence. */
import { Problem, PROBLEM_CODES } from "../../errors.ts";
import { originOf, type OriginName, ORIGINS, type Resource, resourcesOf } from "../../interface/resources.ts";
import { clockText, count, duration, listed, many, percent, soon } from "../page/format.js";
import { type Facts, requestsOf, sum } from "./facts.ts";
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
function isOfApi({ what }: Harm, why: string | undefined): boolean {
  const isOfKey = what === "upstream-authentication-failed";
  const isOfWhy = why === undefined || isOfKey === (why === "credentials");
  return isOfWhy && (what.startsWith("upstream-") || what === "deadline-exceeded");
}

/** @returns whether a failing API caused this harm, and has answered since */
const isAnswered = (harm: Harm): boolean => harm.isAnswered && harm.what.startsWith("upstream-");

/** @returns whether a fault of Redis that began at `since` causes this harm. `quota-exceeded` from before it has another cause. */
const isOfRedis = (harm: Harm, since: number): boolean =>
  isOfBudget(harm) && (harm.what !== "quota-exceeded" || harm.lastAt >= since);

/**
 * Calls to an origin fail: one case for all its resources.
 * @param why the cause of circuits that are not closed; `undefined`: no circuit is open yet
 */
function failing({ budget, at, upstream, explain }: Situation, why?: string): Case[] {
  return ORIGINS.flatMap((origin) => {
    const { circuits } = budget[origin];
    const open = circuits.filter(({ cause }) => cause === why);
    const failingSince = (one: Resource): number | null => upstream[one]?.failingSince ?? null;
    const all = resourcesOf(origin);
    const resources = all.filter((one) => {
      const stops = circuits.filter(({ scope }) => scope === "origin" || scope === one);
      if (why === undefined) return failingSince(one) !== null && stops.length === 0;
      return stops.some(({ cause }) => cause === why);
    });
    if (resources.length === 0) return [];
    const begins = why === undefined ? resources.map(failingSince) : open.map(({ since }) => since);
    const since = Math.min(...begins.map((one) => one ?? at));
    const next = Math.min(...open.map(({ state, until }) => (state === "open" ? until : at)));
    const failed = resources.filter((one) => failingSince(one) !== null);
    const failures = new Set(failed.flatMap((one) => upstream[one]?.lastFailure ?? []));
    const names = resources.map((one) => (one === "sold" ? "sold records" : one));
    const api = names.length === all.length ? "the API" : `the API for ${listed(names, "and")}`;
    const isOfThese = ({ resource }: Harm): boolean => resources.some((one) => one === resource);
    // While a circuit is open, single calls may be answered. That does not end the harm since it opened.
    const isOver = (harm: Harm): boolean => isAnswered(harm) && (why === undefined || harm.lastAt < since);
    const hurt = explain((harm) => isOfThese(harm) && isOfApi(harm, why) && !isOver(harm), since);
    const values = {
      api: origin === "images" ? "the image server" : api,
      next: next > at ? `The next try is in ${soon(next - at)}.` : "The next call is a try.",
      failure: failures.size === 0 ? "" : ` (${[...failures].join(", ")})`,
    };
    return [{ key: origin, since, hurt, values }];
  });
}

const KNOWN_OUTAGES = /^(?:Redis|the ledger on disk|the cache on disk|the shared budget .*)$/;

function outages(
  { outages: all, explain }: Situation,
  isOf: (what: string) => boolean,
  isCaused: (harm: Harm, since: number) => boolean = () => false,
): Case[] {
  return all
    .filter(({ what }) => isOf(what))
    .map(({ what, cause, since }) => ({
      key: what,
      since,
      hurt: explain((harm) => isCaused(harm, since), since),
      // The cause may begin with the name of an operation, such as `set: `.
      values: { what, cause: cause.replace(/^\w+: |\.$/g, "") },
    }));
}

/** After its start, a process normally joins the shared budget within this time. */
const JOINS_MS = 10_000;

function joining({ budget, processes, outages: all, at, explain }: Situation): Case[] {
  const since = processes[0]?.startedAt ?? at;
  if (budget.api.mode !== "joining" || all.length > 0) return [];
  const hurt = explain(isOfBudget, since);
  return hurt.length > 0 || at - since > JOINS_MS ? [{ since, hurt }] : [];
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

function shareSpent({ apps, harms, at, explain }: Situation): Case[] {
  const hurt = explain(({ what }) => what === "quota-exceeded");
  if (hurt.length === 0) return [];
  const names = new Set(hurt.map(({ app }) => app));
  const own = apps.filter(({ app }) => names.has(app));
  const part = sum(own.map(({ refused }) => refused)) / Math.max(1, sum(own.map(requestsOf)));
  const ofOthers = harms.filter(({ app }) => !names.has(app));
  const others = isBudgetHarming(ofOthers, at) ? "" : " No other app is refused.";
  return [{ hurt, values: { part: percent(part), others } }];
}

const isBudgetHarming = (harms: readonly Harm[], at: number): boolean =>
  harms.some((harm) => isOfBudget(harm) && at - harm.lastAt < RECENT_MS);

/** @returns each window of both budgets as a case */
function windowsIn({ budget }: Facts) {
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

/** After a window was spent, half of its calls are seldom free again within this time. */
const STILL_IN_FLIGHT_MS = 10_000;

/**
 * Requests were refused in the last minute, usually because a window was spent. If every window has at least half of its calls
 * left, or windows refuse nothing (`observe`), we assume that too many calls were in flight. Then only the latest refusals count:
 * earlier ones may have had another cause.
 */
function budgetSpent(now: Situation, isInFlight: boolean): Case[] {
  return ORIGINS.flatMap((origin) => {
    // If several windows are spent: the one whose next call is free last.
    const [tightest] = windowsIn(now)
      .filter((window) => window.origin === origin)
      .sort((a, b) => b.waitMs - a.waitMs || a.remaining / a.limit - b.remaining / b.limit);
    const isHalfLeft = tightest !== undefined && tightest.remaining >= tightest.limit / 2;
    if ((isHalfLeft || now.mode === "observe") !== isInFlight) return [];
    const hurt = refusedBy(origin, now);
    const isOver = isInFlight && hurt.every(({ lastAt }) => now.at - lastAt > STILL_IN_FLIGHT_MS);
    return hurt.length === 0 || isOver ? [] : [{ ...tightest, key: origin, hurt }];
  });
}

/** A window is spent, and no request has been refused in the last minute. */
function budgetEmpty(now: Situation): Case[] {
  if (isBudgetHarming(now.harms, now.at)) return [];
  return windowsIn(now).filter(({ origin, remaining, isExceeded }) => {
    const { mode } = now.budget[origin];
    const isKnown = mode !== "joining" && (mode !== "degraded" || now.outages.length === 0);
    return isKnown && remaining < 1 && !isExceeded;
  });
}

const LEAST_WAIT_MS = 1_000;

/**
 * Every call is in the queue for a moment, so a short wait causes no warning. The predicted wait is that of an app without a
 * share of its own. If such an app waits for its share, the other apps need not wait.
 */
function queue({ queue: waiting, budget, outages: all }: Situation): Case[] {
  const { predictedWaitMs, waitsFor, circuits } = budget.api;
  const calls = sum(Object.values(waiting.api));
  const isOfOneApp = waitsFor === "share" || waitsFor === "per-day";
  const isCaused = isOfOneApp || circuits.length > 0 || all.length > 0;
  if (calls === 0 || predictedWaitMs < LEAST_WAIT_MS || isCaused) return [];
  const values = { wait: duration(predictedWaitMs), why: waitText(waitsFor), calls: many(calls, "call") };
  return [{ values }];
}

/** The sentence ends after this time at the latest. The shared budget usually works again after the shortest window. */
const LOSS_LASTS_MS = 10 * 60_000;

function dataLost({ problems, budget, outages: all, at, explain }: Situation): Case[] {
  const since = problems.find(({ what }) => what.startsWith("Redis has lost data."))?.lastAt ?? 0;
  const isOther = all.some(({ what }) => KNOWN_OUTAGES.test(what));
  if (at - since > LOSS_LASTS_MS || budget.api.mode !== "degraded" || isOther) return [];
  return [{ since, hurt: explain((harm) => isOfRedis(harm, since), since) }];
}

/** Errors of the last minute that no other row explains. Errors whose cause is over do not count. */
function unexplained({ budget, explain }: Situation): Case[] {
  const isBudgetBack = ({ what, resource }: Harm): boolean =>
    what === "budget-unavailable" && resource !== "none" && budget[originOf(resource)].mode === "shared";
  const left = explain((harm) => isError(harm) && !isBudgetBack(harm) && !isAnswered(harm));
  return [...Map.groupBy(left, ({ what }) => what)].map(([problem, hurt]) => {
    const code = PROBLEM_CODES.find((one) => one === problem);
    const title = code === undefined ? "Error" : new Problem(code).message;
    return { key: problem, hurt, values: { problem, title } };
  });
}

const WAITS: Readonly<Record<string, string>> = {
  budget: "the budget",
  share: "the app's share",
  "per-day": "the app's daily limit",
  "cool-off": "a pause that the API needs",
  "redis-away": "the shared budget in Redis",
};

/** @param why the reason of a wait for a permit */
export const waitText = (why: string | null): string => WAITS[why ?? ""] ?? why ?? "a call";

const LEDGER = "the ledger on disk";

/** The cases that are true now, by the id of their sentence. */
export const CONDITIONS: Readonly<Record<string, (now: Situation) => readonly Case[]>> = {
  "key-refused": (now) => failing(now, "credentials"),
  "api-unreachable": (now) => failing(now, "unreachable"),
  "api-unavailable": (now) => failing(now, "unavailable"),
  "api-slow-down": (now) => failing(now, "too-many-requests"),
  "api-failing": (now) => failing(now, "failing"),
  "calls-failed": (now) => failing(now),
  "calls-not-recorded": (now) => outages(now, (what) => what === LEDGER),
  "budget-exceeded": (now) =>
    windowsIn(now)
      .filter(({ isExceeded }) => isExceeded)
      .map((one) => ({ ...one, hurt: now.mode === "observe" ? [] : refusedBy(one.origin, now) })),
  "redis-away": (now) => outages(now, (what) => what === "Redis", isOfRedis),
  // Redis usually refuses the commands of both budgets. One sentence is enough.
  "redis-refuses": (now) =>
    outages(now, (what) => what.startsWith("the shared budget"), isOfRedis).slice(0, 1),
  joining,
  "day-spent": daySpent,
  "share-spent": shareSpent,
  "calls-in-flight": (now) => budgetSpent(now, true),
  "budget-spent": (now) => budgetSpent(now, false),
  errors: unexplained,
  // The ledger is in the same file.
  "answers-not-stored": (now) =>
    now.outages.some(({ what }) => what === LEDGER)
      ? []
      : outages(now, (what) => what === "the cache on disk"),
  outage: (now) => outages(now, (what) => !KNOWN_OUTAGES.test(what)),
  "budget-empty": budgetEmpty,
  "budget-ends": (now) =>
    windowsIn(now).filter((one) => now.mode === "enforce" && one.emptyInMs !== null && one.remaining >= 1),
  queue,
  "data-lost": dataLost,
  "too-many-processes": ({ processes, replicas }) =>
    replicas !== null && processes.length > replicas
      ? [{ values: { processes: String(processes.length), replicas: String(replicas) } }]
      : [],
  "versions-differ"({ processes }) {
    const versions = [...new Set(processes.map(({ version }) => version))].sort();
    return versions.length > 1 ? [{ values: { versions: versions.join(", ") } }] : [];
  },
  "one-process": (now) =>
    now.scope === "cut-off" && !now.outages.some(({ what }) => what === "Redis") ? [{}] : [],
  observed: ({ mode }) => (mode === "observe" ? [{}] : []),
  "nothing-yet": ({ requests, sinceAt, at }) =>
    requestsOf(requests) > 0 ? [] : [{ values: { from: clockText(sinceAt, at) } }],
  "not-called": ({ upstream }) => (Object.keys(upstream).length > 0 ? [] : [{}]),
  "all-well": () => [{}],
};
