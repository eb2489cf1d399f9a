/** Checks whether a running gateway accepts requests. The image's HEALTHCHECK uses it, so the image needs no curl. */
import type { Environment } from "../config/env.ts";
import { ownGateway, statusOf } from "./client.ts";
import { CommandFailure } from "./exit.ts";

/** Less than the timeout of the HEALTHCHECK, so that the command can report the reason. */
const TIMEOUT_MS = 3_000;

/**
 * @param given the URL to ask. If it has no path, `/readyz` is added. By default, the gateway with this process' settings is asked.
 * @throws {CommandFailure} if it does not answer with a 2xx status
 */
export async function checkHealth(env: Environment, given: string | undefined): Promise<void> {
  const { base, trust } = given === undefined ? ownGateway(env) : { base: given, trust: {} };
  // `/` is the status page, which is also there while the gateway is not ready.
  const url = base.replace(/^(\w+:\/\/[^/?]+)\/?$/, "$1/readyz");
  const status = await statusOf(url, { ...trust, timeout: TIMEOUT_MS }).catch(({ message }: Error) => {
    throw new CommandFailure(`${url}: ${message}`);
  });
  if (status < 200 || status >= 300) throw new CommandFailure(`${url}: status ${status}`);
}
