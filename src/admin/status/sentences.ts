/**
 * What an operator has to know first: who is hurt, by what, since when, why, and what to do. The page, the command
 * `status` and `/status` show the same sentences. docs/runbook.md lists them.
 */
import { inWords, many, sinceText, waitText } from "../words.ts";
import type { AppStatus, Facts } from "./facts.ts";

export interface Sentence {
  readonly level: "bad" | "warn" | "good";
  readonly text: string;
}

const MOST = 3;
const SHORT_MS = 1_000;

export function sentencesOf(facts: Facts): readonly Sentence[] {
  const bad = [...outages(facts), ...circuits(facts), ...failing(facts), ...spent(facts)];
  const warnings = [...forecasts(facts), ...queue(facts), ...scope(facts), ...observed(facts)];
  const all: Sentence[] = [
    ...bad.map((text) => ({ level: "bad", text }) as const),
    ...warnings.map((text) => ({ level: "warn", text }) as const),
  ];
  return all.length > 0 ? all.slice(0, MOST) : [{ level: "good", text: good(facts) }];
}

function good({ upstream }: Facts): string {
  return Object.keys(upstream).length > 0
    ? "All is well. The property API answers, and the budget has room."
    : "All is well. The budget has room. The property API has not been called yet.";
}

function outages({ outages, at }: Facts): string[] {
  return outages.map(
    ({ what, cause, meanwhile, since }) =>
      `${what} has been out of order since ${sinceText(since, at)}: ${cause}. ${meanwhile}`,
  );
}

const CALLS = { api: "Calls to the property API", images: "Calls to the image server" };
const RESOURCES: Readonly<Record<string, string>> = {
  listings: " for listings",
  sold: " for sold records",
  areas: " for areas",
  images: "",
  origin: "",
};

/** Why a circuit is open, and what to do. */
const CAUSES: Readonly<Record<string, readonly [why: string, remedy: string]>> = {
  credentials: [
    "the API refuses our key",
    "Put the right one into UPSTREAM_PRIVATE_KEY or its file; the gateway notices by itself.",
  ],
  "too-many-requests": ["the API answered 429", "Compare BUDGET with the contract if this happens again."],
  unavailable: ["the API answered 503", "Ask the API's owner if it lasts."],
  unreachable: ["the API cannot be reached", "Check the network and UPSTREAM_URL, or ask the API's owner."],
  failing: ["half of the latest calls failed", "Ask the API's owner if it lasts."],
};

function circuits(facts: Facts): string[] {
  const { budget, at } = facts;
  return Object.entries(budget).flatMap(([origin, of]) =>
    of.circuits.map(({ scope, state, cause, since, until }) => {
      const what = `${origin === "images" ? CALLS.images : CALLS.api}${RESOURCES[scope] ?? ""}`;
      const [why, remedy] = CAUSES[cause] ?? [cause, ""];
      const next =
        state === "open"
          ? `The next try is in ${inWords(Math.max(SHORT_MS, until - at))}.`
          : "The next call is a test.";
      return `${what} have been paused since ${sinceText(since, at)}: ${why}. ${next}${harm(facts, "failed")} ${remedy}`.trim();
    }),
  );
}

/** Calls fail, and no circuit is open yet. */
function failing(facts: Facts): string[] {
  const open = new Set<string>(
    Object.values(facts.budget).flatMap((of) => of.circuits.map(({ scope }) => scope)),
  );
  return Object.entries(facts.upstream).flatMap(([resource, { failingSince, lastFailure }]) =>
    failingSince === null || open.has(resource) || open.has("origin")
      ? []
      : [
          `${CALLS.api}${RESOURCES[resource] ?? ""} have failed since ${sinceText(failingSince, facts.at)}: ` +
            `${lastFailure ?? "no answer"}.${harm(facts, "failed")}`,
        ],
  );
}

function spent(facts: Facts): string[] {
  return Object.entries(facts.budget).flatMap(([origin, { windows }]) =>
    windows.flatMap(({ name, limit, spent, heldBack, remaining, comesBack }) => {
      if (remaining >= 1) return [];
      const [next] = comesBack;
      const held = heldBack > 0 ? `, ${Math.floor(heldBack)} kept for other replicas` : "";
      const when =
        next === undefined ? "" : ` The next call is free in ${inWords(Math.max(SHORT_MS, next.inMs))}.`;
      const what = origin === "images" ? "image budget" : "budget";
      return [
        `The ${what} of ${name} has no call left (${Math.floor(spent)} of ${limit} spent${held}).${when}${harm(facts, "refused")}`,
      ];
    }),
  );
}

function forecasts({ budget }: Facts): string[] {
  return Object.entries(budget).flatMap(([origin, { windows }]) =>
    windows.flatMap(({ name, remaining, emptyInMs }) => {
      if (emptyInMs === null || remaining < 1) return [];
      const what = origin === "images" ? "image budget" : "budget";
      return [
        `The ${what} of ${name} will be spent in about ${inWords(emptyInMs)} at this rate: ${many(remaining, "call")} left.`,
      ];
    }),
  );
}

/** Every call is in the queue for a moment, so a short wait is no warning. */
function queue({ queue, budget }: Facts): string[] {
  const waiting = Object.values(queue)
    .flatMap((of) => Object.values(of))
    .reduce((sum, of) => sum + of, 0);
  const { predictedWaitMs, waitsFor } = budget.api;
  if (waiting === 0 || predictedWaitMs < SHORT_MS) return [];
  return [
    `${many(waiting, "call")} waiting in the queue. A new call would wait ${inWords(predictedWaitMs)} for ${waitText(waitsFor)}.`,
  ];
}

function scope({ scope }: Facts): string[] {
  return scope === "cut-off" ? ["Redis does not answer. These are the numbers of one process only."] : [];
}

function observed({ mode }: Facts): string[] {
  return mode === "observe" ? ["The budget is only observed (budget.mode): nothing is refused."] : [];
}

const MOST_NAMED = 3;

/** @returns which apps were hurt in the last hour, the most hurt first */
function harm({ apps }: Facts, how: "failed" | "refused"): string {
  const hurt = apps.filter((app) => app[how] > 0).sort((a, b) => b[how] - a[how]);
  if (hurt.length === 0) return " No request has been lost so far: callers get cached answers.";
  const named = hurt.slice(0, MOST_NAMED).map((app) => `${app.app} (${howOften(app, how)})`);
  const more = hurt.length > MOST_NAMED ? ` and ${many(hurt.length - MOST_NAMED, "more app")}` : "";
  return ` Hurt in the last hour: ${named.join(", ")}${more}.`;
}

function howOften(app: AppStatus, how: "failed" | "refused"): string {
  return `${app[how].toLocaleString("en")} ${how}`;
}
