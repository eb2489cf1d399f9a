// The sentences at the top of the page: what an operator has to know first.
import { causeText, duration, many, since, soon, waitText } from "./words.js";

const SHORT_MS = 1_000;
const ORIGINS = { api: "Calls to the property API", images: "Calls to the image server" };
const RESOURCES = { listings: "Listings", sold: "Sold records", areas: "Areas", images: "Images" };
export const resourceText = (name) => RESOURCES[name] ?? name;

/** @returns the `level` ("bad", "warn" or "good"), `id` and `text` of each sentence, the worst first */
export function verdictOf(status) {
  const sentences = [
    ...outageSentences(status),
    ...upstreamSentences(status),
    ...budgetSentences(status),
    ...queueSentences(status),
  ];
  if (status.scope === "cut-off") {
    sentences.push({
      id: "redis",
      level: "warn",
      text: "Redis does not answer. These are the numbers of one process only.",
    });
  }
  if (status.mode === "observe") {
    sentences.push({
      id: "mode",
      level: "warn",
      text: "The budget is only observed (budget.mode): nothing is refused.",
    });
  }
  const order = ["bad", "warn"];
  sentences.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  return sentences.length > 0 ? sentences : [{ id: "good", level: "good", text: goodText(status) }];
}

function goodText({ upstream }) {
  return Object.keys(upstream).length > 0
    ? "All is well. The property API answers, and the budget has room."
    : "All is well. The budget has room. The property API has not been called yet.";
}

function outageSentences({ outages, at }) {
  return outages.map(({ what, cause, meanwhile, since: from }) => ({
    id: `outage ${what}`,
    level: "bad",
    text: `${what} has been out of order since ${since(from, at)}: ${cause}. ${meanwhile}`,
  }));
}

function upstreamSentences({ budget, upstream, at }) {
  const stopped = Object.entries(budget).flatMap(([origin, { circuits }]) =>
    circuits.map(({ scope, state, cause, since: from, until }) => {
      const what =
        scope === "origin" ? ORIGINS[origin] : `${ORIGINS[origin]} for ${resourceText(scope).toLowerCase()}`;
      const next =
        state === "open"
          ? `The next try is in ${soon(until - at)}.`
          : "The next call tests whether it works again.";
      return {
        id: `circuit ${origin} ${scope}`,
        level: "bad",
        text: `${what} have been paused since ${since(from, at)}: ${causeText(cause)}. ${next} Callers get cached answers, if there are any.`,
      };
    }),
  );
  const stoppedScopes = new Set(
    Object.values(budget).flatMap(({ circuits }) => circuits.map(({ scope }) => scope)),
  );
  const failing = Object.entries(upstream)
    .filter(
      ([name, { failingSince }]) =>
        failingSince !== null && !stoppedScopes.has(name) && !stoppedScopes.has("origin"),
    )
    .map(([name, { failingSince, lastFailure }]) => ({
      id: `failing ${name}`,
      level: "bad",
      text: `${resourceText(name)}: calls to the API have failed since ${since(failingSince, at)}: ${lastFailure}.`,
    }));
  return [...stopped, ...failing];
}

function budgetSentences({ budget }) {
  return Object.entries(budget).flatMap(([origin, { windows }]) =>
    windows.flatMap(({ name, limit, remaining, comesBack, emptyInMs }) => {
      const what = `${origin === "images" ? "Image budget" : "Budget"} ${name}`;
      const id = `budget ${origin} ${name}`;
      if (remaining < 1) {
        const [next] = comesBack;
        const when = next ? ` The next call is available in ${soon(next.inMs)}.` : "";
        return [{ id, level: "bad", text: `${what} is spent (${limit}).${when}` }];
      }
      if (emptyInMs === null) return [];
      return [
        {
          id,
          level: "warn",
          text: `${what} will be spent in about ${soon(emptyInMs)} at this rate: ${many(remaining, "call")} left.`,
        },
      ];
    }),
  );
}

function queueSentences({ queue, budget }) {
  const waiting = Object.values(queue)
    .flatMap((of) => Object.values(of))
    .reduce((sum, of) => sum + of, 0);
  const { predictedWaitMs, waitsFor } = budget.api;
  // Every call is in the queue for a moment, so a short wait is no warning.
  if (waiting === 0 || predictedWaitMs < SHORT_MS) return [];
  const wait = `A new call would wait ${duration(predictedWaitMs)} for ${waitText(waitsFor)}.`;
  return [{ id: "queue", level: "warn", text: `${many(waiting, "call")} waiting in the queue. ${wait}` }];
}
