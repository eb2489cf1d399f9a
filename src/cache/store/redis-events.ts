/**
 * The messages that replicas send each other about entries and purges: JSON on one channel. An unknown
 * message is ignored, so replicas of two versions can run side by side.
 */
import type { Purge, PurgeScope } from "./purges.ts";

/** @returns the channel of a namespace */
export function eventsChannel(namespace: string): string {
  return `${namespace}events`;
}

export type RedisEvent =
  /** `from`: the replica that stored the entry. */
  | { readonly kind: "stored"; readonly from: string; readonly key: string; readonly storedAt: number }
  | { readonly kind: "purged"; readonly purges: readonly Purge[] };

/** @returns the event, or `undefined` when the text is not one */
export function readEvent(text: string): RedisEvent | undefined {
  const message = parse(text);
  if (message?.["kind"] === "stored") {
    const { from, key, storedAt } = message;
    const isComplete = typeof from === "string" && typeof key === "string" && typeof storedAt === "number";
    return isComplete ? { kind: "stored", from, key, storedAt } : undefined;
  }
  if (message?.["kind"] === "purged") {
    const { purges } = message;
    return Array.isArray(purges) ? { kind: "purged", purges: purges.flatMap(purgeIn) } : undefined;
  }
  return undefined;
}

/** @returns a list with the purge in a text from Redis; an empty list if the text is not a purge */
export function readPurge(text: string): Purge[] {
  return purgeIn(parse(text));
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

function purgeIn(value: unknown): Purge[] {
  if (!isObject(value)) return [];
  const { epoch, hard } = value;
  const scope = scopeIn(value["scope"]);
  if (typeof epoch !== "number" || typeof hard !== "boolean" || scope === undefined) return [];
  return [{ epoch, scope, hard }];
}

function scopeIn(value: unknown): PurgeScope | undefined {
  if (!isObject(value)) return undefined;
  const { kind, key, resource, tag } = value;
  if (kind === "all") return { kind };
  if (kind === "key" && typeof key === "string") return { kind, key };
  if (kind === "resource" && typeof resource === "string") return { kind, resource };
  if (kind === "tag" && typeof tag === "string") return { kind, tag };
  return undefined;
}
