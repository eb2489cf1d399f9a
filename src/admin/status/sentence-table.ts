/**
 * The sentences of the status: which apps are hurt, by what, since when, why, and what to do. The page, the command `status`,
 * `GET /status` and the log show them; docs/runbook.md lists them. Each row of the table `ROWS` has a condition and a
 * text. In the text, `{…}` stands for a current value.
 */
import { clockText } from "../page/format.js";
import * as conditions from "./conditions.ts";
import { type Facts, requestsOf } from "./facts.ts";
import { type Harm, harmsIn, hurtText, isError } from "./harm.ts";

export interface Sentence {
  readonly id: string;
  readonly level: "bad" | "warn" | "good";
  readonly text: string;
}

interface Row {
  /** @returns the cases that are true now */
  readonly when: (situation: conditions.Situation) => readonly conditions.Case[];
  /** `{hurt}` names the apps, what they get, and since when. */
  readonly says: string;
  /** What to do. */
  readonly todo: string;
}

const MOST = 3;

const LEDGER = "the ledger on disk";
const ASK_OWNER = "Ask the API's owner if it lasts.";
const WHO_SPENDS =
  "`usage` shows which app spends it: set its perDay, or agree on more calls and raise BUDGET.";

const { failing, outages, windowsIn } = conditions;

/** By level and id, the worst first. */
const ROWS: Readonly<Record<Sentence["level"], Readonly<Record<string, Row>>>> = {
  bad: {
    "key-refused": {
      when: (now) => failing(now, "credentials"),
      says: "{hurt} the API refuses our key.",
      todo: "Put the right one into UPSTREAM_PRIVATE_KEY(_FILE); the gateway notices by itself.",
    },
    "api-unreachable": {
      when: (now) => failing(now, "unreachable"),
      says: "{hurt} {api} cannot be reached. {next}",
      todo: "Check the network and UPSTREAM_URL, or ask the API's owner.",
    },
    "api-unavailable": {
      when: (now) => failing(now, "unavailable"),
      says: "{hurt} {api} answers 503 and asks for a pause. {next}",
      todo: ASK_OWNER,
    },
    "api-slow-down": {
      when: (now) => failing(now, "too-many-requests"),
      says: "{hurt} {api} answers 429: too many requests. {next}",
      todo: "Compare BUDGET with the contract if it happens again.",
    },
    "api-failing": {
      when: (now) => failing(now, "failing"),
      says: "{hurt} most calls to {api} fail{failure}. {next}",
      todo: ASK_OWNER,
    },
    "calls-failed": {
      when: (now) => failing(now),
      says: "{hurt} the latest calls to {api} failed{failure}.",
      todo: "Wait a minute: the gateway goes on trying, and pauses if it lasts.",
    },
    "calls-not-recorded": {
      when: (now) => outages(now, (what) => what === LEDGER),
      says: "{hurt} calls are counted in memory only, not on the disk ({cause}).",
      todo: "Make room in DATA_DIR, or repair the disk. Do not restart the gateway before.",
    },
    "budget-exceeded": {
      when: (now) => windowsIn(now).filter(({ isExceeded }) => isExceeded),
      says: "{hurt} more calls count than the {budget} of {window} allows ({spent} of {limit}).",
      todo: "If BUDGET was not lowered, look for another gateway that uses this account without this Redis or DATA_DIR.",
    },
    "redis-away": {
      when: (now) => outages(now, (what) => what === "Redis", conditions.isOfBudget),
      says: "{hurt} Redis does not answer ({cause}), so this process spends only its own part of the budget.",
      todo: "Repair Redis; the gateway recovers by itself. Do not restart the gateway meanwhile.",
    },
    "redis-refuses": {
      when: (now) => outages(now, (what) => what.startsWith("the shared budget"), conditions.isOfBudget),
      says: "{hurt} Redis refuses the commands of {what} ({cause}).",
      todo: "Check Redis' memory, and the access rules of its user.",
    },
    joining: {
      when: conditions.joining,
      says: "{hurt} this process waits to join the shared budget.",
      todo: "It takes some seconds after a start. If it lasts, check Redis and REPLICAS.",
    },
    "day-spent": {
      when: conditions.daySpent,
      says: "{hurt} {whose} calls of a day (perDay) are spent. The next one is free in {next}.",
      todo: "Raise perDay if more should be possible.",
    },
    "share-spent": {
      when: conditions.shareSpent,
      says: "{hurt} {whose} share of the budget is spent ({part} of the requests in the last hour refused).{others}",
      todo: "Raise the weight, or ask the owners to spread their searches.",
    },
    "budget-spent": {
      when: conditions.budgetSpent,
      says: "{hurt} the {budget} of {window} is not enough ({spent} of {limit} calls spent{held}).{next}",
      todo: WHO_SPENDS,
    },
    errors: {
      when: conditions.unexplained,
      says: '{hurt} "{title}" ({problem}).',
      todo: "docs/runbook.md says more under GatewayErrors.",
    },
  },
  warn: {
    "answers-not-stored": {
      // Both are in one file.
      when: (now) =>
        now.outages.some(({ what }) => what === LEDGER)
          ? []
          : outages(now, (what) => what === "the cache on disk"),
      says: "{hurt} new answers are kept in memory only, not on the disk ({cause}).",
      todo: "Make room in DATA_DIR, or repair the disk.",
    },
    outage: {
      when: (now) => outages(now, (what) => !conditions.KNOWN_OUTAGES.test(what)),
      says: "{hurt} {what} does not work ({cause}).",
      todo: "docs/runbook.md lists causes.",
    },
    "budget-empty": {
      when: conditions.budgetEmpty,
      says: "No app is refused so far, but the {budget} of {window} has no call left ({spent} of {limit} calls spent{held}).{next}",
      todo: WHO_SPENDS,
    },
    "budget-ends": {
      when: (now) =>
        now.mode === "observe"
          ? []
          : windowsIn(now).filter(({ emptyInMs, remaining }) => emptyInMs !== null && remaining >= 1),
      says: "All apps will run out of calls in about {in} at this rate: {remaining} of {limit} are left in the {budget} of {window}.",
      todo: WHO_SPENDS,
    },
    queue: {
      when: conditions.queue,
      says: "Requests wait {wait} for {why}: {calls} in the queue.",
      todo: "If it lasts, `usage` shows which app asks most.",
    },
    "data-lost": {
      when: conditions.dataLost,
      says: "{hurt} Redis has lost data, so each process spends only its own part of the budget for the shortest window.",
      todo: "It ends by itself. For the future: maxmemory-policy volatile-lru and appendonly yes.",
    },
    "too-many-processes": {
      when: ({ processes, replicas }) =>
        replicas !== null && processes.length > replicas
          ? [{ values: { processes: String(processes.length), replicas: String(replicas) } }]
          : [],
      says: "{processes} processes share a budget for {replicas} (REPLICAS): some have no part of their own while Redis is away.",
      todo: "Raise REPLICAS, or wait until the old processes of a rollout have ended.",
    },
    "versions-differ": {
      when({ processes }) {
        const versions = [...new Set(processes.map(({ version }) => version))].sort();
        return versions.length > 1 ? [{ values: { versions: versions.join(", ") } }] : [];
      },
      says: "The processes run different versions: {versions}.",
      todo: "Finish the rollout.",
    },
    "one-process": {
      when: ({ scope, outages }) =>
        scope === "cut-off" && !outages.some(({ what }) => what === "Redis") ? [{}] : [],
      says: "These are the numbers of one process: Redis did not answer the status page.",
      todo: "If it lasts, check Redis.",
    },
    observed: {
      when: ({ mode }) => (mode === "observe" ? [{}] : []),
      says: "The budget is only observed (budget.mode): it refuses no request.",
      todo: "Set budget.mode: enforce when the trial is over.",
    },
  },
  good: {
    "nothing-yet": {
      when: (now) =>
        requestsOf(now.requests) > 0 ? [] : [{ values: { from: clockText(now.sinceAt, now.at) } }],
      says: "No app has sent a request since {from}.",
      todo: "`doctor --call` tries the key with one call.",
    },
    "not-called": {
      when: (now) => (requestsOf(now.requests) > 0 && Object.keys(now.upstream).length === 0 ? [{}] : []),
      says: "All is well: the cache answers. The property API has not been called yet.",
      todo: "",
    },
    "all-well": {
      when: (now) => (requestsOf(now.requests) > 0 && Object.keys(now.upstream).length > 0 ? [{}] : []),
      says: "All is well: the property API answers, and the budget has room.",
      todo: "",
    },
  },
};

export const SENTENCES = (["bad", "warn", "good"] as const).flatMap((level) =>
  Object.entries(ROWS[level]).map(([id, row]) => ({ id, level, ...row })),
);

/** A sentence that is true now, and the harm that it explains. */
export interface Found extends Sentence {
  /** Distinguishes the sentence from all others, also from those of the same row. */
  readonly key: string;
  readonly hurt: readonly Harm[];
}

/** @returns at most three, the worst first */
export function shownOf(found: readonly Found[]): readonly Sentence[] {
  return found.slice(0, MOST).map(({ id, level, text }) => ({ id, level, text }));
}

/** @returns all of them, the worst first. A good sentence appears only if there is no other. */
export function sentencesOf(facts: Facts): readonly Found[] {
  const { at } = facts;
  const harms = harmsIn(facts.problems, at);
  let unexplained: readonly Harm[] = harms;
  function explain(isCaused: (harm: Harm) => boolean, since = at): readonly Harm[] {
    const isOf = (harm: Harm): boolean => isCaused(harm) && harm.lastAt > since - conditions.RECENT_MS;
    const { own = [], others = [] } = Object.groupBy(unexplained, (harm) => (isOf(harm) ? "own" : "others"));
    unexplained = others;
    return own;
  }
  const situation = { ...facts, harms, explain };
  const all = SENTENCES.flatMap(({ id, level, when, says, todo }) =>
    when(situation).map(({ key = "", since, hurt = [], values = {} }) => {
      const whose = new Set(hurt.map(({ app }) => app)).size === 1 ? "its" : "their";
      const given: Readonly<Record<string, string>> = { ...values, whose, hurt: hurtText(hurt, since, at) };
      const sentence = says.replaceAll(/\{(\w+)\}/g, (_, name: string) => given[name] ?? "");
      return { id, key: `${id} ${key}`, level, hurt, text: `${sentence} ${todo}`.trim() };
    }),
  );
  const wrong = all.filter(({ level }) => level !== "good");
  const rank = ({ level, hurt }: Found): number => (level === "warn" ? 2 : hurt.some(isError) ? 0 : 1);
  return wrong.length === 0 ? all : wrong.sort((a, b) => rank(a) - rank(b));
}
