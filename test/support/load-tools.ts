/**
 * Loads the tools that the tests need and neither npm's lock file nor the system has. Each comes over the network, so
 * each gets a process of its own, and all load at the same time: `node test/support/load-tools.ts NAME`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import { HELM_TOOLS } from "./helm-tools.ts";
import { needPython } from "./tool-cache.ts";
import { CHECKERS } from "./tools.ts";

const FILE = fileURLToPath(import.meta.url);
const TOOLS = { ...HELM_TOOLS, ...CHECKERS };

/** Rejects where a tool cannot be had; the reason is on standard error then. */
export async function loadTools(): Promise<void> {
  needPython();
  await Promise.all(
    Object.keys(TOOLS).map(async (name) => {
      const [code] = await once(spawn(process.execPath, [FILE, name], { stdio: "inherit" }), "exit");
      if (code !== 0) throw new Error(`The tests need ${name}, which could not be loaded.`);
    }),
  );
}

if (process.argv[1] === FILE) TOOLS[process.argv[2] ?? ""]?.();
