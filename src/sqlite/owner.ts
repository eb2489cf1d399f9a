/**
 * Whose data a file holds. The ledger belongs to an account, cached answers to an account and its upstream.
 */
import type { Database } from "./database.ts";

/** Fingerprints, as src/identity.ts makes them. */
export interface Owner {
  readonly account: string;
  readonly upstream: string;
}

/** The file holds the data of another account. */
export class DataOfAnotherAccount extends Error {
  override readonly name = "DataOfAnotherAccount";
}

/**
 * Writes the owner into a file that has none. Drops the cached answers if they are of another upstream of the account.
 * @returns whether cached answers were dropped
 * @throws {DataOfAnotherAccount} the file belongs to another account; nothing is changed
 */
export function claimFile(database: Database, owner: Owner): boolean {
  const found = database.prepare("SELECT account, upstream FROM owner").get();
  if (found === undefined) {
    write(database, owner);
    return false;
  }
  if (found["account"] !== owner.account) throw new DataOfAnotherAccount("the data of another account");
  if (found["upstream"] === owner.upstream) return false;
  return adopt(database, owner);
}

/**
 * Makes the file this owner's, whoever it belonged to: the ledger goes on counting, cached answers are dropped.
 * @returns true
 */
export function adopt(database: Database, owner: Owner): boolean {
  database.exec("BEGIN IMMEDIATE");
  try {
    database.exec("DELETE FROM entries; DELETE FROM learned; DELETE FROM owner");
    write(database, owner);
    database.exec("COMMIT");
  } catch (error) {
    // A full disk may have ended it.
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
  return true;
}

function write(database: Database, { account, upstream }: Owner): void {
  database.prepare("INSERT INTO owner (account, upstream) VALUES (?, ?)").run(account, upstream);
}
