/**
 * The cache key of a query: a namespace, the format and the canonical query, all readable.
 */
import type { Format } from "../interface/media-types.ts";

/** Increase it when the canonical form or the stored form changes. All older entries are then misses. */
const KEY_FORMAT = 1;

/** The prefix of all our keys in every store. The gateway does not touch other keys. */
export const NAMESPACE = `property-gateway:${KEY_FORMAT}:`;

/**
 * The braces are a Redis Cluster hash tag, which puts all keys of one query into one slot. A canonical query contains no
 * braces.
 * @param format the requested format, because each format has its own answers
 * @returns for example `property-gateway:1:{json:listings?areaId=76&offset=0}`
 */
export function cacheKey(format: Format, canonicalQuery: string): string {
  return `${NAMESPACE}{${format}:${canonicalQuery}}`;
}

/**
 * The prefixes of all keys and channels in Redis.
 * @param identity short hashes of the account, and of the account with its upstream (config/data-owner.ts)
 * @param keyPrefix the setting `redis.keyPrefix`
 */
export function redisNamespaces(
  identity: { readonly account: string; readonly upstream: string },
  keyPrefix: string,
): { readonly budget: string; readonly cache: string } {
  const prefix = keyPrefix + NAMESPACE;
  return { budget: `${prefix}${identity.account}:`, cache: `${prefix}${identity.upstream}:` };
}

/**
 * @param namespace the namespace of the account and its upstream, from `redisNamespaces`
 * @returns the key in Redis for a key of this process
 */
export const keyIn = (namespace: string, key: string): string => namespace + key.slice(NAMESPACE.length);

/** @returns the resource in a key that `cacheKey` made */
export const resourceOfKey = (key: string): string | undefined => /\{\w+:([a-z]+)/.exec(key)?.[1];
