/**
 * Who owns stored data. Two gateways may share a Redis server, but they must not share a budget or an answer by
 * accident.
 *
 * | Data                        | Belongs to                                                                         |
 * |-----------------------------|------------------------------------------------------------------------------------|
 * | the budget and its ledger   | the account: service and caller id. A changed URL does not start a second budget.  |
 * | the cache and its purges    | the account and the upstream's addresses                                           |
 */
import { hash } from "node:crypto";

import type { Config } from "./config.ts";

/** @returns short hashes, which distinguish accounts without showing their names */
export function dataOwnerOf({ service, callerId, url, imageUrl }: Config["upstream"]): {
  readonly account: string;
  readonly upstream: string;
} {
  return { account: fingerprint(service, callerId), upstream: fingerprint(service, callerId, url, imageUrl) };
}

function fingerprint(...parts: readonly string[]): string {
  return hash("sha256", JSON.stringify(parts), "base64url").slice(0, 12);
}
