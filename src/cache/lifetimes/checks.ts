/**
 * Decides when the gateway compares its answers with the upstream's own, in the background. The checks make at most one per
 * cent of the other calls. They run one at a time, and only while enough budget is left.
 */
import type { Resource } from "../../interface/resources.ts";

/** `answer`: fetches a cached answer again. `page`: fetches a cut page by itself; if the two differ, fetches both again. */
type CheckKind = "answer" | "page";

export type Checks = ReturnType<typeof createChecks>;

/** The calls for checks, as a part of the other calls. */
const CHECKS_PER_CALL = 0.01;
/** The two kinds take turns. The other kind is due when this many calls are allowed: a check makes three calls at most. */
const CALLS_IN_TURN = 3;
/** With one call more, the same kind is due again. Otherwise it would wait for ever if the other kind had nothing to check. */
const CALLS_OUT_OF_TURN = 4;
/** Answers are checked only while at least this part of the budget is left. */
const CHECK_ABOVE = 0.5;

/**
 * @param budgetLeft the part of the budget that is left for a resource, from 0 to 1
 * @param failed a check ended in an unexpected error
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createChecks(budgetLeft: (resource: Resource) => number, failed: (error: unknown) => void) {
  /** The calls that checks may make now. */
  let allowed = 0;
  let isChecking = false;
  let last: CheckKind = "answer";
  return {
    /** The upstream was called, for a check or not. */
    called(): void {
      allowed = Math.min(allowed + CHECKS_PER_CALL, CALLS_OUT_OF_TURN);
    },
    isDue(kind: CheckKind, resource: Resource): boolean {
      if (isChecking || allowed < (kind === last ? CALLS_OUT_OF_TURN : CALLS_IN_TURN)) return false;
      if (budgetLeft(resource) >= CHECK_ABOVE) return true;
      // Every hit runs this function, and reading the budget takes time. So wait for further calls before the next look.
      allowed = 0;
      return false;
    },
    /**
     * Runs a check that is due. Never rejects.
     * @param work calls its argument before each call to the upstream
     */
    async run(kind: CheckKind, work: (spend: () => void) => Promise<void>): Promise<void> {
      isChecking = true;
      last = kind;
      // `called` also counts the calls of checks. Take back what that added.
      await work(() => (allowed -= 1 + CHECKS_PER_CALL)).catch(failed);
      isChecking = false;
    },
  };
}
