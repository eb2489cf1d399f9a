/**
 * The sentences of the status: which apps are hurt, by what, since when, why, and what to do. The page, the command `status`,
 * `GET /status` and the log show them; docs/runbook.md lists them. conditions.ts says when each of them is true.
 */
import { CONDITIONS, RECENT_MS } from "./conditions.ts";
import type { Facts } from "./facts.ts";
import { type Harm, harmsIn, hurtText, isError } from "./hurt-apps.ts";

const LEVELS = ["bad", "warn", "good"] as const;

/** A sentence that is true now, and the harm that it explains. */
export type Found = ReturnType<typeof sentencesOf>[number];
export type Sentence = Pick<Found, "id" | "level" | "text">;

const MOST = 3;

const ASK_OWNER = "Ask the API's owner if it lasts.";
const WHO_SPENDS =
  "`usage` shows which app spends it: set its perDay, or agree on more calls and raise BUDGET.";

/**
 * Level, id, sentence, and what to do; by level, the worst first. `{…}` stands for a current value. `{hurt}` names the apps,
 * what they get, and since when.
 */
const TABLE = `
bad | key-refused | {hurt} the API refuses our key. | Put the right one into UPSTREAM_PRIVATE_KEY(_FILE); the gateway notices by itself.
bad | api-unreachable | {hurt} {api} does not answer{failure}. {next} | Check the network and UPSTREAM_URL, or ask the API's owner.
bad | api-unavailable | {hurt} {api} answers 503 and asks for a pause. {next} | ${ASK_OWNER}
bad | api-slow-down | {hurt} {api} answers 429: too many requests. {next} | Compare BUDGET with the contract if it happens again.
bad | api-failing | {hurt} most calls to {api} fail{failure}. {next} | ${ASK_OWNER}
bad | outage | {hurt} {what} does not work ({cause}). {meanwhile} | docs/runbook.md lists causes.
bad | budget-exceeded | {hurt} more calls count than the {budget} of {window} allows ({spent} of {limit}). | If BUDGET was not lowered and budget.mode was not observe, look for another gateway that uses this account without this Redis or DATA_DIR.
bad | shared-budget | {hurt} the shared budget is closed: this process has just started, or Redis has lost data. | It opens by itself within the shortest window. If it lasts, check Redis and REPLICAS.
bad | day-spent | {hurt} the calls of a day (perDay) are spent. The next one is free in {next}. | Raise perDay if more should be possible.
bad | share-spent | {hurt} an app may use only its share of the budget. | Raise the weight, or ask the owners to spread their searches.
bad | budget-spent | {hurt} the {budget} of {window}{orCalls} is not enough ({spent} of {limit} calls spent{held}).{next} | ${WHO_SPENDS}
bad | errors | {hurt} "{title}" ({problem}). | docs/runbook.md says more under GatewayErrors.
warn | minor-outage | {hurt} {what} does not work ({cause}). {meanwhile} | docs/runbook.md lists causes.
warn | budget-empty | No app is refused so far, but the {budget} of {window} has no call left ({spent} of {limit} calls spent{held}).{next} | ${WHO_SPENDS}
warn | budget-ends | All apps will run out of calls in about {in} at this rate: {remaining} of {limit} are left in the {budget} of {window}. | ${WHO_SPENDS}
warn | observed | The budget is only observed (budget.mode): it refuses no request. | Set budget.mode: enforce when the trial is over.
good | nothing-yet | No request has ended since {from}. | \`doctor --call\` tries the key with one call.
good | all-well | All is well: no app is hurt, and the budget has room. |
`;

export const SENTENCES = TABLE.trim()
  .split("\n")
  .map((row) => {
    const [first, id = "", says = "", todo = ""] = row.split("|").map((cell) => cell.trim());
    const level = LEVELS.find((one) => one === first);
    const when = CONDITIONS[id];
    if (level === undefined || when === undefined) throw new Error(`No level, or no condition: ${row}`);
    return { id, level, when, says, todo };
  });

/** @returns at most three, the worst first */
export function shownOf(found: readonly Found[]): readonly Sentence[] {
  return found.slice(0, MOST).map(({ id, level, text }) => ({ id, level, text }));
}

/** @returns all of them, the worst first; if there are only good ones, the first of these */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function sentencesOf(facts: Facts) {
  const { at } = facts;
  const harms = harmsIn(facts.problems, at);
  let unexplained: readonly Harm[] = harms;
  function explain(isCaused: (harm: Harm) => boolean, since = at): readonly Harm[] {
    const own = unexplained.filter((harm) => isCaused(harm) && harm.lastAt > since - RECENT_MS);
    unexplained = unexplained.filter((harm) => !own.includes(harm));
    return own;
  }
  const situation = { ...facts, harms, explain };
  const all = SENTENCES.flatMap(({ id, level, when, says, todo }) =>
    when(situation).map(({ key = "", since, hurt = [], values = {} }) => {
      const given: Record<string, string> = { ...values, hurt: hurtText(hurt, since, at) };
      const sentence = says.replaceAll(/\{(\w+)\}/g, (_, name: string) => given[name] ?? "");
      // The key distinguishes the sentence from all others, also from those of the same row.
      return { id, key: `${id} ${key}`, level, hurt, text: `${sentence} ${todo}`.trim() };
    }),
  );
  const wrong = all.filter(({ level }) => level !== "good");
  const rank = ({ level, hurt }: (typeof all)[number]): number =>
    level === "warn" ? 3 : hurt.some(isError) ? 0 : hurt.length > 0 ? 1 : 2;
  return wrong.length === 0 ? all.slice(0, 1) : wrong.sort((a, b) => rank(a) - rank(b));
}
