/** Starts a gateway in this process, in front of a sandbox or another upstream. */
import { readFileSync } from "node:fs";

import { createGateway } from "../src/app.ts";
import { openSettings } from "../src/config/load.ts";
import { systemClock } from "../src/process/clock.ts";
import { systemRandom } from "../src/process/random.ts";
import { createSandbox, type Sandbox, type SandboxOptions } from "../src/sandbox/sandbox.ts";
import { createLogger } from "../src/telemetry/log.ts";
import { withConstants } from "../test/support/constants.ts";

const CALLER = { service: "propertyservice", callerId: "bench", privateKey: "bench-key" };

export interface BenchGateway {
  readonly url: string;
  readonly adminUrl: string;
  readonly sandbox: Sandbox;
  readonly stop: () => Promise<void>;
}

/** @param settings the text of a settings file */
export async function startGateway(
  sandboxOptions: Pick<SandboxOptions, "sizes" | "data" | "changes">,
  settings = "",
  logLevel = "warn",
  budget?: string,
): Promise<BenchGateway> {
  const sandbox = createSandbox({ ...CALLER, ...sandboxOptions });
  const upstream = await sandbox.listen();
  const gateway = await startGatewayAt(upstream.url, settings, logLevel, budget);
  return { ...gateway, sandbox, stop: () => gateway.stop().then(sandbox.close) };
}

/** @param settings the text of a settings file */
export async function startGatewayAt(
  upstreamUrl: string,
  settings = "",
  logLevel = "warn",
  budget = "1000000/1m",
): Promise<Omit<BenchGateway, "sandbox">> {
  const { settings: text, constants } = withConstants(settings);
  const source = openSettings({
    constants,
    env: {
      HOST: "127.0.0.1",
      PORT: "0",
      ADMIN_PORT: "0",
      DATA_DIR: "",
      UPSTREAM_URL: upstreamUrl,
      UPSTREAM_IMAGE_URL: upstreamUrl,
      UPSTREAM_SERVICE: CALLER.service,
      UPSTREAM_CALLER_ID: CALLER.callerId,
      UPSTREAM_PRIVATE_KEY: CALLER.privateKey,
      UPSTREAM_USER_AGENT: "bench/1.0",
      UPSTREAM_REFERRER: "https://www.example.com/",
      BUDGET: budget,
      LOG_LEVEL: logLevel,
      LOG_ACCESS: logLevel === "info" ? "on" : "off",
      ...(settings !== "" && { CONFIG_FILE: "bench.yaml" }),
    },
    readFile: (path) => (path === "bench.yaml" ? text : readFileSync(path, "utf8")),
  });
  const { config } = source.first;
  const log = createLogger({ level: config.log.level, secrets: source.keys.known });
  const gateway = createGateway({ source, clock: systemClock, random: systemRandom, log });
  const { callers, admin } = await gateway.start();
  return { url: callers.url, adminUrl: admin.url, stop: gateway.stop };
}
