/**
 * The cache key of a query: readable text behind a namespace.
 */
import type { Format } from "../interface/media-types.ts";

/** Raised whenever the canonical text or the stored form changes meaning: old entries are then misses. */
const KEY_FORMAT = 1;

/** What every key of ours begins with, in every store; nothing outside it is ever touched. */
export const NAMESPACE = `property-gateway:${KEY_FORMAT}:`;

/**
 * The braces are a Redis Cluster hash tag: what belongs to one question lives in one slot. Canonical
 * text has no braces of its own.
 * @param format what was asked for: answers of two versions are two answers
 * @param text the canonical text of the query
 * @returns e.g. `property-gateway:1:{json:listings?areaId=76&offset=0}`
 */
export function cacheKey(format: Format, text: string): string {
  return `${NAMESPACE}{${format}:${text}}`;
}

/**
 * @param namespace that of the account and its upstream, as `redisNamespaces` makes it
 * @returns the key under which Redis holds what this process knows under `key`
 */
export function keyIn(namespace: string, key: string): string {
  return namespace + key.slice(NAMESPACE.length);
}

/** @returns the resource that a key made by `cacheKey` is about */
export function resourceOfKey(key: string): string | undefined {
  return /\{\w+:([a-z]+)/.exec(key)?.[1];
}
