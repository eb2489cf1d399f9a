/**
 * `npm run demo`: runs a sandbox, a gateway in front of it, and the traffic of five apps in one process. No setup is needed. In
 * a terminal, keys break things and heal them.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { CONFIG_FILE, type Environment } from "../config/env.ts";
import { main } from "../main.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { DEMO_SETTINGS, startTraffic, type Traffic } from "./demo-traffic.ts";
import { print } from "./print-table.ts";
import { loadSandbox } from "./sandbox.ts";

const CALLER = { service: "propertyservice", callerId: "demo", privateKey: "demo-key" } as const;

/** @param env the environment, overridden by command line options */
export async function runDemo(env: Environment): Promise<void> {
  const { createSandbox } = await loadSandbox();
  const sandbox = createSandbox(CALLER);
  const dataDir = mkdtempSync(join(tmpdir(), "property-gateway-demo-"));
  process.once("exit", () => rmSync(dataDir, { recursive: true, force: true }));
  const upstream = await sandbox.listen();
  const control = await sandbox.listenControl();
  const settingsFile = join(dataDir, "demo.yaml");
  writeFileSync(settingsFile, DEMO_SETTINGS);
  const quiet = { LOG_LEVEL: "warn", LOG_ACCESS: "off", HOST: "127.0.0.1", [CONFIG_FILE]: settingsFile };
  const account = {
    UPSTREAM_URL: upstream.url,
    UPSTREAM_IMAGE_URL: upstream.url,
    UPSTREAM_SERVICE: CALLER.service,
    UPSTREAM_CALLER_ID: CALLER.callerId,
    UPSTREAM_PRIVATE_KEY: CALLER.privateKey,
    UPSTREAM_PRIVATE_KEY_FILE: "",
    UPSTREAM_USER_AGENT: "property-gateway-demo/1.0",
    UPSTREAM_REFERRER: "https://demo.invalid/",
  };
  await main({ ...quiet, ...env, ...account, REDIS_URL: "", DATA_DIR: dataDir }, ({ callers, admin }) => {
    const listings = `${callers.url}/listings?areaId=76&objectType=villa`;
    print(`
property-gateway  ${callers.url}
status page       ${admin.url}/
app developers    ${callers.url}/docs
metrics, health   ${admin.url}/metrics  ${admin.url}/readyz
sandbox upstream  ${upstream.url} (control: ${control.url})

Try these:
  curl -i '${listings}&limit=3'
  curl -i '${listings}&limit=900'
  npm run -s cli -- status --admin-url ${admin.url}
  npm run -s cli -- explain '${listings}&limit=3' --admin-url ${admin.url}
  curl -X POST ${control.url}/faults -d '{"status": 503}'  # the API fails, until: curl -X DELETE ${control.url}/faults
`);
    const traffic = startTraffic(callers.url);
    print(`Five apps send requests. Watch them at ${admin.url}/`);
    if (process.stdin.isTTY) followKeys(sandbox, traffic, admin.url);
    else print("\nCtrl-C stops everything.");
  });
  // `main` ends the process, except if it did not start.
  await sandbox.close();
}

/** Prints and does what each key stands for. */
function followKeys(sandbox: Sandbox, traffic: Traffic, adminUrl: string): void {
  function heal(): void {
    sandbox.faults.clear();
    sandbox.setCaller(CALLER);
    traffic.setHog(false);
    // Without this, the gateway tries again only when its pause ends: after seconds, or half a minute for a refused key.
    fetch(`${adminUrl}/circuits/try`, { method: "POST" }).catch(() => undefined);
  }
  const healed =
    "Healed: the API works and accepts the key, and the hog has gone. The gateway tries at once.";
  const keys: Readonly<Record<string, readonly [says: string, act?: () => void]>> = {
    "1": ["API down: it answers every call with 503.", () => sandbox.faults.add({ status: 503 })],
    "2": ["Wrong key: the API refuses calls with 403.", () => sandbox.setCaller({ privateKey: "other" })],
    "3": ["A hog: one more app sends ten new questions a second.", () => traffic.setHog(true)],
    "4": ["Redis away: this demo is one gateway without Redis, so there is nothing to break."],
    "0": [healed, heal],
  };
  print("Keys: 1 API down, 2 wrong key, 3 a hog, 4 Redis away, 0 heal, q stop");
  const stop = (): void => void process.kill(process.pid, "SIGINT");
  // In raw mode, each key arrives immediately, and Ctrl-C arrives as a character. The demo also stops when the terminal closes.
  process.stdin.setRawMode(true).on("end", stop).on("error", stop);
  process.stdin.on("data", (typed) => {
    for (const key of typed.toString()) {
      if (key === "q" || key === "\u0003") stop();
      const [says, act] = keys[key] ?? [];
      act?.();
      if (says !== undefined) print(`${key}  ${says}`);
    }
  });
}
