/**
 * Asks a running gateway whether it takes requests: the image's HEALTHCHECK, which so needs no curl.
 */
import type { Command } from "commander";

import { type AdminAddress, adminAddress } from "./admin-address.ts";
import { EXIT } from "./exit.ts";
import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** Less than the HEALTHCHECK's own limit, so that what is said is why. */
const PATIENCE_MS = 3_000;

/**
 * `health [url]`: exit code 0 where the address answers with success, 1 where it does not, and why on standard error.
 * Without an address it is `/readyz` of the gateway that runs with the same settings as this process.
 */
export function addHealth(program: Command): void {
  const command = program
    .command("health")
    .alias("health-check")
    .description("ask a running gateway whether it accepts requests")
    .argument("[url]", "address to ask; without it /readyz of the admin port that the settings name")
    .action(checkHealth);
  addSettingOptions(command, ["config", "adminHost", "adminPort"]);
}

async function checkHealth(given: string | undefined, options: SettingOptions): Promise<void> {
  const address = given === undefined ? await ownAddress(options) : { base: given, trust: {} };
  if (address === undefined) return;
  const url = given ?? `${address.base}/readyz`;
  const fault = await faultOf(url, address);
  if (fault === undefined) return;
  process.stderr.write(`${url}: ${fault}\n`);
  process.exitCode = EXIT.failed;
}

/** @returns `undefined`, with exit code 1 set, where the settings cannot be used */
async function ownAddress(options: SettingOptions): Promise<AdminAddress | undefined> {
  const { readSettings } = await import("../config/load.ts");
  const config = readSettings(environmentWith(options))?.first.config;
  return config && adminAddress(config.admin);
}

/** @returns what is wrong in a few words; `undefined` where nothing is */
async function faultOf(url: string, { trust }: AdminAddress): Promise<string | undefined> {
  const { get } = url.startsWith("https:") ? await import("node:https") : await import("node:http");
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  // Not fetch: it takes longer to load than the answer takes to come, and asks no port that it thinks unsafe.
  const options = { agent: false, signal: AbortSignal.timeout(PATIENCE_MS), ...trust };
  const request = get(url, options, (response) => {
    const { statusCode: status = 0 } = response;
    resolve(status >= 200 && status < 300 ? undefined : `status ${status}`);
    response.destroy();
  });
  request.on("error", ({ name, message }) => {
    resolve(name === "AbortError" ? `no answer within ${PATIENCE_MS} ms` : message);
  });
  return promise;
}
