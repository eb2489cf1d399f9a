/**
 * Identifies the owner of data. Two gateways may share a Redis server, but they must not share a budget or an answer by
 * accident.
 *
 * | Data                        | Belongs to                                                                         |
 * |-----------------------------|------------------------------------------------------------------------------------|
 * | the budget and its ledger   | the account: service and caller id. A changed URL does not start a second budget.  |
 * | the cache and its purges    | the account and the upstream's addresses                                           |
 */
import { hash } from "node:crypto";

import type { Config } from "./config/config.ts";
import { NAMESPACE } from "./query/key.ts";

/** Short hashes. They distinguish accounts without showing their names. */
export interface Identity {
  readonly account: string;
  /** The account and the upstream's addresses. */
  readonly upstream: string;
}

export function identityOf({ service, callerId, url, imageUrl }: Config["upstream"]): Identity {
  return { account: fingerprint(service, callerId), upstream: fingerprint(service, callerId, url, imageUrl) };
}

/** The prefixes of all keys and channels in Redis. */
export interface RedisNamespaces {
  readonly budget: string;
  readonly cache: string;
}

/** @param keyPrefix the setting `redis.keyPrefix` */
export function redisNamespaces({ account, upstream }: Identity, keyPrefix: string): RedisNamespaces {
  const prefix = keyPrefix + NAMESPACE;
  return { budget: `${prefix}${account}:`, cache: `${prefix}${upstream}:` };
}

function fingerprint(...parts: readonly string[]): string {
  return hash("sha256", JSON.stringify(parts), "base64url").slice(0, 12);
}
