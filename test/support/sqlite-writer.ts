/**
 * A process that does nothing but write to the file: entries, purges and sends, in a fixed order. It says
 * `opened`, then after each entry that is stored its number; and `done` where there is an end to it.
 *
 * Arguments: the directory, the first number, how many (0: until killed).
 */
import type { OwnLedger } from "../../src/usage/ledger-line.ts";
import { createSqliteLedger } from "../../src/usage/sqlite-ledger.ts";
import type { Entry } from "../../src/cache/entry.ts";
import type { Database } from "../../src/sqlite/database.ts";
import { createRandom } from "./random.ts";
import { entryWith, keyOf } from "./entries.ts";
import { ledgerEntry } from "./ledger.ts";
import { openSqliteStore } from "./sqlite.ts";

/** Written under `keyOfNumber`: a few bytes or many, compressible or not. */
export function entryOfNumber(number: number): Entry {
  const random = createRandom(number);
  const bytes = random.between(1, 30_000);
  const isPicture = number % 3 === 0;
  const body = Buffer.from(`number ${number} `.repeat(Math.ceil(bytes / 10)));
  if (isPicture) for (let at = 0; at < body.length; at++) body[at] = random.between(0, 255);
  return entryWith(body, WRITTEN_AT + number, {
    contentType: isPicture ? "image/jpeg" : "application/json",
    keepUntil: Number.MAX_SAFE_INTEGER,
  });
}

/** Numbers that differ by this share a key, the higher one being the newer entry. */
export const KEYS = 100;
export const keyOfNumber = (number: number): string => keyOf(`sold/${number % KEYS}`);
/** A purge is declared before each entry whose number this divides. */
export const PURGE_EVERY = 10;
export const WRITTEN_AT = Date.UTC(2026, 0, 15);
/** For longer than this test is going to be run. */
export const KEPT_MS = 100 * 365 * 86_400_000;

/** A ledger that has no reason to drop or correct anything. */
export const ledgerOn = (database: Database): OwnLedger =>
  createSqliteLedger(database, {
    retentionMs: 86_400_000,
    maxRecords: 1_000_000,
    clock: { now: () => WRITTEN_AT + 100_000, machine: { boot: "test", up: () => WRITTEN_AT } },
  });

if (import.meta.main) {
  const [directory = "", first = "0", count = "0"] = process.argv.slice(2);
  const backend = openSqliteStore(directory, {
    retentionMs: KEPT_MS,
    // Anything it warns of is a failure of the test.
    log: {
      warn: (message, fields) => console.log(`warning: ${message} ${JSON.stringify(fields)}`),
      outOfOrder: ({ what, cause }) => console.log(`warning: ${what}: ${cause}`),
      backInOrder: (what) => console.log(`warning: ${what} is back`),
    },
  });
  console.log("opened");
  const ledger = ledgerOn(backend.database);
  const end = Number(count) === 0 ? Number.POSITIVE_INFINITY : Number(first) + Number(count);
  for (let number = Number(first); number < end; number++) {
    const at = WRITTEN_AT + number;
    ledger.enter(ledgerEntry({ id: String(number), at }));
    ledger.complete(String(number), { status: 200, durationMs: 1, arrivedAt: at });
    if (number % PURGE_EVERY === 0) await backend.purge({ kind: "tag", tag: `record:${number}` }, false);
    await backend.set(keyOfNumber(number), entryOfNumber(number));
    console.log(String(number));
  }
  await backend.close();
  console.log("done");
}
