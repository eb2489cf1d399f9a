/**
 * Questions that the upstream did not take with a condition: it found fault with the validators (412), or with the
 * room they take (431). Asked so again it would say so again, for ever. So the next call goes without, and those
 * after it, until one brings an answer, which has validators of its own or none.
 */
import type { Validators } from "../types.ts";
import type { Format } from "../interface/media-types.ts";

interface Asked {
  readonly target: string;
  readonly format: Format;
  readonly held: Validators | undefined;
}

export interface RefusedConditions {
  /** The same question, without what is held where the upstream did not take that the last time. */
  readonly without: <Question extends Asked>(question: Question) => Question;
  /** The upstream has answered a question with this status, and with something that can be used or not. */
  readonly answered: (question: Asked, status: number, isUsable: boolean) => void;
}

const REFUSALS: ReadonlySet<number> = new Set([412, 431]);
/** More are not remembered: the oldest are forgotten, and asked with a condition once more. */
const MOST = 10_000;

export function createRefusedConditions(): RefusedConditions {
  /** In the order in which they were refused. */
  const refused = new Set<string>();

  return {
    without: (question) => (refused.has(nameOf(question)) ? { ...question, held: undefined } : question),
    answered(question, status, isUsable) {
      const name = nameOf(question);
      if (isUsable) refused.delete(name);
      else if (REFUSALS.has(status) && question.held !== undefined) {
        refused.add(name);
        if (refused.size > MOST) refused.delete(refused.values().next().value ?? "");
      }
    },
  };
}

function nameOf({ target, format }: Asked): string {
  return `${format} ${target}`;
}
