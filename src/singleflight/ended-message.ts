/**
 * The message to the other replicas about how a flight ended, as JSON. An unknown message is ignored, so that replicas of two
 * versions can run together.
 */
import type { Seal } from "../process/seal.ts";
import { Problem, PROBLEM_CODES, type ProblemCode } from "../errors.ts";
import type { ClaimEnd } from "./replicas.ts";

interface EndedMessage {
  readonly key: string;
  /** The holder of the claim. */
  readonly holder: string;
  readonly end: ClaimEnd;
}

/** Under this name, messages are sealed: others may write to Redis, and callers get the problem in the message. */
const NAME = "the end of a flight";
const MOST_CHARACTERS = 32_768;

/** The message contains only the public parts of a problem, and whether the gateway itself refused. */
export function endedMessage(seal: Seal, key: string, holder: string, end: ClaimEnd): string {
  const shown = end.kind === "failed" ? failed(end.problem) : end;
  return seal.seal(NAME, JSON.stringify({ key, holder, end: shown }));
}

function failed({ code, details: { detail, retryAfterSeconds, refusedHere } }: Problem): object {
  return { kind: "failed", code, detail, retryAfterSeconds, refusedHere };
}

/** @returns the message; `undefined` if the text is not a message of this gateway */
export function readEndedMessage(seal: Seal, sealed: string): EndedMessage | undefined {
  const text = seal.open(NAME, sealed, MOST_CHARACTERS);
  const message = text === undefined ? undefined : parse(text);
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

/** An unknown end becomes `vacant`, so that waiting replicas claim the key again. */
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
