/**
 * The message that tells the other replicas how a flight ended, as JSON. An unknown message is ignored, so
 * replicas of two versions can run side by side.
 */
import { Problem, PROBLEM_CODES, type ProblemCode } from "../errors.ts";
import type { ClaimEnd } from "../types.ts";

interface EndedMessage {
  readonly key: string;
  /** The holder of the claim. */
  readonly holder: string;
  readonly end: ClaimEnd;
}

/** Of a problem, only the public parts are sent, and whether the gateway itself refused. */
export function endedMessage(key: string, holder: string, end: ClaimEnd): string {
  return JSON.stringify({ key, holder, end: end.kind === "failed" ? failed(end.problem) : end });
}

function failed({ code, details: { detail, retryAfterSeconds, refusedHere } }: Problem): object {
  return { kind: "failed", code, detail, retryAfterSeconds, refusedHere };
}

/** @returns the message, or `undefined` when the text is not one */
export function readEndedMessage(text: string): EndedMessage | undefined {
  const message = parse(text);
  if (!isObject(message)) return undefined;
  const { key, holder, end } = message;
  if (typeof key !== "string" || typeof holder !== "string" || !isObject(end)) return undefined;
  return { key, holder, end: endIn(end) };
}

type Fields = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An unknown end is `vacant`: whoever waits claims again. */
function endIn({ kind, code, detail, retryAfterSeconds, refusedHere }: Fields): ClaimEnd {
  if (kind === "landed") return { kind };
  if (kind !== "failed" || !isProblemCode(code)) return { kind: "vacant" };
  const problem = new Problem(code, {
    ...(typeof detail === "string" && { detail }),
    ...(typeof retryAfterSeconds === "number" && { retryAfterSeconds }),
    ...(refusedHere === true && { refusedHere }),
    internal: "the flight of another replica failed",
  });
  return { kind, problem };
}

function isProblemCode(code: unknown): code is ProblemCode {
  return PROBLEM_CODES.some((known) => known === code);
}
