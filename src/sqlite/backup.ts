/** Copies of the SQLite file. The gateway locks the file, so only the gateway itself can copy it while it runs. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { backup } from "node:sqlite";

import type { Database } from "./database.ts";
import { createPrivately } from "./files.ts";

/** Passes the path of a copy to `use`, and removes the copy when that is done. Rejects if there is no room for it. */
export type WithCopy = (use: (file: string) => Promise<void>) => Promise<void>;

const FILE_NAME = "unfinished-backup.sqlite";

/** Call it when the process starts, because one that was killed may have left a copy, and when it stops. */
export function removeCopy(directory: string): void {
  for (const suffix of ["", "-journal"]) rmSync(join(directory, FILE_NAME + suffix), { force: true });
}

/** @returns a function that copies the database while it is in use, with SQLite's backup API, one copy at a time */
export function createCopier(database: Database, directory: string): WithCopy {
  const file = join(directory, FILE_NAME);
  let last = Promise.resolve();
  removeCopy(directory);

  async function copy(use: (file: string) => Promise<void>): Promise<void> {
    try {
      createPrivately(file);
      await backup(database, file);
      await use(file);
    } finally {
      removeCopy(directory);
    }
  }
  return async (use) => {
    const copied = last.then(async () => await copy(use));
    last = copied.catch(() => undefined);
    await copied;
  };
}
