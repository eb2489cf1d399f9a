/** Checks whether a running gateway accepts requests. The image's HEALTHCHECK uses it, so the image needs no curl. */
import type { Environment } from "../config/env.ts";
import { readSettings } from "../config/load.ts";
import { adminAddress, statusOf } from "./client.ts";
import { CommandFailure } from "./exit.ts";

/** Less than the timeout of the HEALTHCHECK, so that the command can report the reason. */
const TIMEOUT_MS = 3_000;

/**
 * @param given the URL to ask; by default `/readyz` of the gateway that runs with the same settings as this process
 * @throws {CommandFailure} if it does not answer with a 2xx status
 */
export async function checkHealth(env: Environment, given: string | undefined): Promise<void> {
  const config = given === undefined ? readSettings(env)?.first.config : undefined;
  if (given === undefined && config === undefined) return;
  const { host, port, tls } = config?.admin ?? { tls: null };
  const { base, trust } = adminAddress(host, port, tls);
  const url = given ?? `${base}/readyz`;
  const fault = await statusOf(url, { timeoutMs: TIMEOUT_MS, ...(given === undefined && trust) }).then(
    (status) => (status >= 200 && status < 300 ? undefined : `status ${status}`),
    (error: Error) => error.message,
  );
  if (fault !== undefined) throw new CommandFailure(`${url}: ${fault}`);
}
