import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { openSqliteStore } from "../support/sqlite.ts";
import { storeContract } from "./store-contract.ts";

storeContract("SQLite", async (clock) => {
  const dataDir = mkdtempSync(join(tmpdir(), "property-gateway-"));
  const backend = openSqliteStore(dataDir, { clock });
  return {
    store: backend,
    close: async () => {
      await backend.close();
      rmSync(dataDir, { recursive: true });
    },
  };
});
