import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll } from "vitest";

import { openSqliteStore } from "../support/sqlite.ts";
import { storeContract } from "./store-contract.ts";

const root = mkdtempSync(join(tmpdir(), "property-gateway-"));
afterAll(() => rmSync(root, { recursive: true }));

let opened = 0;
storeContract("SQLite", async (clock) => openSqliteStore(join(root, String(++opened)), { clock }));
