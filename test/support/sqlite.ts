import type { Backend } from "../../src/cache/backend.ts";
import { createSqliteBackend, type SqliteBackendOptions } from "../../src/cache/sqlite-backend.ts";
import { systemClock } from "../../src/platform/clock.ts";

/** A backend that must open; what it logs goes to `warnings`. */
export function openSqliteBackend(
  dataDir: string,
  options: Partial<SqliteBackendOptions> & { readonly warnings?: string[] } = {},
): Backend {
  const backend = createSqliteBackend({
    dataDir,
    maxBytes: 256 * 1024 * 1024,
    retentionMs: 86_400_000,
    clock: systemClock,
    log: { warn: (message, fields) => void options.warnings?.push(`${message} ${JSON.stringify(fields)}`) },
    onOperation: () => undefined,
    ...options,
  });
  if (backend === undefined) throw new Error("the database could not be opened");
  return backend;
}
