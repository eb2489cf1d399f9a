/**
 * The process: settings, start, signals, drain.
 */
import { createGateway } from "./app.ts";
import { createLogger } from "./observe/log.ts";
import { systemClock } from "./platform/clock.ts";
import { readConfig } from "./platform/read-config.ts";
import { systemRandom } from "./platform/random.ts";
import { secretsIn } from "./platform/secret.ts";
import { whenToldToStop } from "./platform/signals.ts";

/** `npm start`: runs until SIGTERM or SIGINT. Exit code 1 where it cannot start. */
export async function main(): Promise<void> {
  const config = readConfig();
  if (config === undefined) return;
  const log = createLogger({ level: config.log.level, secrets: secretsIn(config) });
  const gateway = createGateway({ config, clock: systemClock, random: systemRandom, log });
  try {
    const { callers, admin } = await gateway.start();
    log.info({ callers: callers.url, admin: admin.url, node: process.version }, "property-gateway is ready");
  } catch (error) {
    log.fatal({ err: error }, "property-gateway cannot listen");
    process.exitCode = 1;
    return await gateway.stop();
  }
  const signal = await whenToldToStop();
  log.info({ signal }, "stopping: no new connections, requests in flight are finished");
  await gateway.stop();
  log.info("stopped");
  // A call to the upstream that nobody waits for any more would keep the process for as long as it takes.
  process.exit();
}
