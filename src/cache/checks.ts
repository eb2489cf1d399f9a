/**
 * Checks in the background that answers are as good as the upstream's own. They make at most one per cent of the calls that are
 * made anyway, one check at a time, and only while enough budget is left.
 */
import type { Resource } from "../interface/resources.ts";

/** `answer`: a cached answer is fetched again. `page`: a page cut from a block is fetched by itself, and perhaps both again. */
type CheckKind = "answer" | "page";

export interface Checks {
  /** The upstream was called, for a check or not. */
  readonly called: () => void;
  readonly isDue: (kind: CheckKind, resource: Resource) => boolean;
  /**
   * Runs a check that is due. Never rejects.
   * @param work calls its argument before each call to the upstream
   */
  readonly run: (kind: CheckKind, work: (spend: () => void) => Promise<void>) => Promise<void>;
}

/** The calls for checks of each kind, as a part of the other calls. */
const CHECKS_PER_CALL = 0.005;
/** The most calls that a check makes. */
const CALLS = { answer: 1, page: 3 } as const satisfies Record<CheckKind, number>;
/** Answers are checked only while at least this part of the budget is left. */
const CHECK_ABOVE = 0.5;

export interface ChecksOptions {
  /** The part of the budget that is left for a resource, from 0 to 1. */
  readonly budgetLeft: (resource: Resource) => number;
  /** A check ended in an unexpected error. */
  readonly failed: (error: unknown) => void;
}

export function createChecks({ budgetLeft, failed }: ChecksOptions): Checks {
  /** The calls that checks may make now. */
  const allowed = { answer: 0, page: 0 };
  let isChecking = false;
  return {
    called() {
      allowed.answer = Math.min(allowed.answer + CHECKS_PER_CALL, CALLS.answer);
      allowed.page = Math.min(allowed.page + CHECKS_PER_CALL, CALLS.page);
    },
    isDue(kind, resource) {
      if (isChecking || allowed[kind] < CALLS[kind]) return false;
      if (budgetLeft(resource) >= CHECK_ABOVE) return true;
      // Every hit comes by here, and asking for the budget takes time.
      allowed[kind] = 0;
      return false;
    },
    async run(kind, work) {
      isChecking = true;
      // A check's own call earns nothing, for either kind.
      await work(() => (allowed[kind] -= 1 + 2 * CHECKS_PER_CALL)).catch(failed);
      isChecking = false;
    },
  };
}
