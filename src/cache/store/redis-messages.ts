/**
 * What replicas tell each other through Redis: JSON on one channel. Whatever else arrives there is
 * ignored, so that replicas of two versions can live side by side.
 */
import { Problem, PROBLEM_CODES, type ProblemCode } from "../../errors.ts";
import { type ClaimEnd, type Party, PRIORITIES, type Priority } from "../../types.ts";
import { NAMESPACE } from "../../query/key.ts";
import type { Purge, PurgeScope } from "./purges.ts";

export const CHANNEL = `${NAMESPACE}events`;

/** Of more apps than that nothing is said, for one flight. */
export const MOST_APPS = 64;
const APP_ID = /^[A-Za-z0-9._-]{1,64}$/;

export type RedisMessage =
  /** `from`: the replica that stored it. */
  | { readonly kind: "stored"; readonly from: string; readonly key: string; readonly storedAt: number }
  | { readonly kind: "purged"; readonly purges: readonly Purge[] }
  /** A flight ended, whose claim was `holder`'s. */
  | { readonly kind: "ended"; readonly key: string; readonly holder: string; readonly end: ClaimEnd }
  /** All who wait at the replica `from` for the flight whose claim is `holder`'s, and for how long at the most. */
  | {
      readonly kind: "waiting";
      readonly holder: string;
      readonly from: string;
      readonly party: Party;
      readonly forMs: number;
    };

/** The message that a flight has ended. Of a problem what is public goes along, and who refused. */
export function endedMessage(key: string, holder: string, end: ClaimEnd): string {
  return JSON.stringify({
    kind: "ended",
    key,
    holder,
    end: end.kind === "failed" ? failed(end.problem) : end,
  });
}

/** The message that tells a flight's leader who waits elsewhere: times go as durations, no two clocks are compared. */
export function waitingMessage(
  holder: string,
  from: string,
  { apps, priority }: Party,
  forMs: number,
): string {
  return JSON.stringify({ kind: "waiting", holder, from, apps, priority, forMs });
}

function failed({ code, details: { detail, retryAfterSeconds, refusedHere } }: Problem): object {
  return { kind: "failed", code, detail, retryAfterSeconds, refusedHere };
}

/** @returns the message, or `undefined` where it is none that is understood here */
export function readMessage(text: string): RedisMessage | undefined {
  const message = parse(text);
  switch (message?.["kind"]) {
    case "stored": {
      const { from, key, storedAt } = message;
      if (typeof from !== "string" || typeof key !== "string" || typeof storedAt !== "number")
        return undefined;
      return { kind: "stored", from, key, storedAt };
    }
    case "purged": {
      const { purges } = message;
      return Array.isArray(purges) ? { kind: "purged", purges: purges.flatMap(purgeOf) } : undefined;
    }
    case "ended": {
      const { key, holder, end } = message;
      if (typeof key !== "string" || typeof holder !== "string" || !isObject(end)) return undefined;
      return { kind: "ended", key, holder, end: endOf(end) };
    }
    case "waiting":
      return waitingIn(message);
    default:
      return undefined;
  }
}

/** @returns the purge that a text kept in Redis says, in a list; an empty one where it is none */
export function readPurge(text: string): Purge[] {
  return purgeOf(parse(text));
}

type Fields = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}

function parse(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function purgeOf(value: unknown): Purge[] {
  if (!isObject(value)) return [];
  const { epoch, hard } = value;
  const scope = scopeOf(value["scope"]);
  if (typeof epoch !== "number" || typeof hard !== "boolean" || scope === undefined) return [];
  return [{ epoch, scope, hard }];
}

function scopeOf(value: unknown): PurgeScope | undefined {
  if (!isObject(value)) return undefined;
  const { kind, key, resource, tag } = value;
  if (kind === "all") return { kind };
  if (kind === "key" && typeof key === "string") return { kind, key };
  if (kind === "resource" && typeof resource === "string") return { kind, resource };
  if (kind === "tag" && typeof tag === "string") return { kind, tag };
  return undefined;
}

/** An end that is not understood is one that says nothing: whoever waits claims anew. */
function endOf({ kind, code, detail, retryAfterSeconds, refusedHere }: Fields): ClaimEnd {
  if (kind === "landed") return { kind };
  if (kind !== "failed" || !isProblemCode(code)) return { kind: "vacant" };
  const problem = new Problem(code, {
    ...(typeof detail === "string" && { detail }),
    ...(typeof retryAfterSeconds === "number" && { retryAfterSeconds }),
    ...(refusedHere === true && { refusedHere }),
    internal: "another replica's flight failed",
  });
  return { kind, problem };
}

function waitingIn(message: Fields): RedisMessage | undefined {
  const { holder, from, forMs } = message;
  const party = partyOf(message);
  if (typeof holder !== "string" || typeof from !== "string" || typeof forMs !== "number") return undefined;
  return party && { kind: "waiting", holder, from, party, forMs };
}

/** Somebody of a priority that is not known here is nobody. */
function partyOf({ apps, priority }: Fields): Party | undefined {
  if (!Array.isArray(apps) || !isPriority(priority)) return undefined;
  const isApp = (app: unknown): app is string => typeof app === "string" && APP_ID.test(app);
  return { apps: apps.slice(0, MOST_APPS).filter(isApp), priority };
}

function isPriority(text: unknown): text is Priority {
  return PRIORITIES.some((known) => known === text);
}

function isProblemCode(code: unknown): code is ProblemCode {
  return PROBLEM_CODES.some((known) => known === code);
}
