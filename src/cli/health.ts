/**
 * Checks whether a running gateway accepts requests. The image's HEALTHCHECK uses this command, so the image needs no curl.
 */
import type { Command } from "commander";

import { type AdminAddress, adminAddress } from "./admin-address.ts";
import { EXIT } from "./exit.ts";
import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** Less than the timeout of the HEALTHCHECK, so that the command can report the reason. */
const TIMEOUT_MS = 3_000;

/**
 * `health [url]`: exit code 0 if the URL answers with a 2xx status. Otherwise exit code 1, and the reason on standard error.
 * The default URL is `/readyz` of the gateway that runs with the same settings as this process.
 */
export function addHealth(program: Command): void {
  const command = program
    .command("health")
    .alias("health-check")
    .description("check whether a running gateway accepts requests")
    .argument("[url]", "URL to check (default: /readyz of the admin port in the settings)")
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

/** @returns `undefined` if the settings are invalid; the exit code is then 1 */
async function ownAddress(options: SettingOptions): Promise<AdminAddress | undefined> {
  const { readSettings } = await import("../config/load.ts");
  const config = readSettings(environmentWith(options))?.first.config;
  return config && adminAddress(config.admin);
}

/** @returns what is wrong in a few words; `undefined` if nothing is */
async function faultOf(url: string, { trust }: AdminAddress): Promise<string | undefined> {
  const { get } = url.startsWith("https:") ? await import("node:https") : await import("node:http");
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  // Uses node:http, because fetch takes longer to load than the whole check, and refuses some ports.
  const options = { agent: false, signal: AbortSignal.timeout(TIMEOUT_MS), ...trust };
  const request = get(url, options, (response) => {
    const { statusCode: status = 0 } = response;
    resolve(status >= 200 && status < 300 ? undefined : `status ${status}`);
    response.destroy();
  });
  request.on("error", ({ name, message }) => {
    resolve(name === "AbortError" ? `no answer within ${TIMEOUT_MS} ms` : message);
  });
  return promise;
}
