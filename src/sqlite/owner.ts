/**
 * The owner of the data in a file. The ledger belongs to an account, cached answers belong to an account and its upstream.
 */
import type { Database } from "./database.ts";
import { UnusableData } from "./files.ts";

/** The fingerprints from src/config/data-owner.ts. */
export interface Owner {
  readonly account: string;
  readonly upstream: string;
}

const ANOTHER_ACCOUNT =
  "the directory holds the budget and the answers of another account (upstream.service or upstream.callerId). Set " +
  "another directory, or run `npm run adopt-data` to count its calls against this account and drop its answers";

/**
 * Writes the owner into a file that has none. Drops the cached answers if they belong to another upstream of the account.
 * @returns whether cached answers were dropped
 * @throws {UnusableData} if the file belongs to another account; then nothing changes
 */
export function claimFile(database: Database, owner: Owner): boolean {
  const found = database.prepare("SELECT account, upstream FROM owner").get();
  if (found !== undefined && found["account"] !== owner.account) throw new UnusableData(ANOTHER_ACCOUNT);
  if (found?.["upstream"] === owner.upstream) return false;
  adopt(database, owner);
  return found !== undefined;
}

/**
 * Changes the owner of the file, also from another account. The calls in the ledger now count against the new owner, and
 * cached answers are dropped. If it throws, nothing changes when the database is closed.
 */
export function adopt(database: Database, { account, upstream }: Owner): void {
  database.exec("BEGIN IMMEDIATE; DELETE FROM entries; DELETE FROM owner");
  database.prepare("INSERT INTO owner (account, upstream) VALUES (?, ?)").run(account, upstream);
  database.exec("COMMIT");
}
