/** Checks whether a running gateway accepts requests. The image's HEALTHCHECK uses it, so the image needs no curl. */
import { adminAddress, exchange } from "./client.ts";
import { CommandFailure } from "./exit.ts";
import { environmentWith, type SettingOptions } from "./settings-options.ts";

/** Less than the timeout of the HEALTHCHECK, so that the command can report the reason. */
const TIMEOUT_MS = 3_000;

/**
 * @param given the URL to ask; by default `/readyz` of the gateway that runs with the same settings as this process
 * @throws {CommandFailure} if it does not answer with a 2xx status
 */
export async function checkHealth(given: string | undefined, options: SettingOptions): Promise<void> {
  const { readSettings } = await import("../config/load.ts");
  const config = given === undefined ? readSettings(environmentWith(options))?.first.config : undefined;
  if (given === undefined && config === undefined) return;
  const { base, trust } = adminAddress(config?.admin ?? {});
  const url = given ?? `${base}/readyz`;
  const fault = await exchange(url, { timeoutMs: TIMEOUT_MS, ...(given === undefined && trust) }).then(
    ({ status }) => (status >= 200 && status < 300 ? undefined : `status ${status}`),
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  if (fault !== undefined) throw new CommandFailure(`${url}: ${fault}`);
}
