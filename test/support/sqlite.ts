import { SqliteStore, type SqliteStoreOptions } from "../../src/cache/store/sqlite.ts";
import { systemClock } from "../../src/process/clock.ts";

export const SQLITE_FILE = "property-gateway.sqlite";

type Options = Partial<SqliteStoreOptions> & { readonly warnings?: string[] };

/** A backend; what it logs goes to `warnings`. */
export function openSqliteStore(dataDir: string, options: Options = {}): SqliteStore {
  return new SqliteStore({
    dataDir,
    owner: { account: "account", upstream: "upstream" },
    maxBytes: 256 * 1024 * 1024,
    retentionMs: 86_400_000,
    clock: systemClock,
    log: {
      warn: (message, fields) => void options.warnings?.push(`${message} ${JSON.stringify(fields)}`),
      outOfOrder: ({ what, cause }) => void options.warnings?.push(`out of order: ${what}: ${cause}`),
      backInOrder: (what) => void options.warnings?.push(`back in order: ${what}`),
    },
    onOperation: () => undefined,
    onBreaker: () => undefined,
    ...options,
  });
}
