/**
 * The process: settings, start, signals, drain, exit code.
 */
import { createGateway, type Gateway } from "./app.ts";
import type { StopOptions } from "./lifecycle.ts";
import { createLogger, type Logger } from "./telemetry/log.ts";
import { systemClock } from "./process/clock.ts";
import { checkWarmList } from "./warm-list.ts";
import { ConfigError } from "./config/config.ts";
import { type Environment, processEnvironment } from "./config/env.ts";
import { systemRandom } from "./process/random.ts";
import { createPrivateKeys } from "./config/private-key.ts";
import { describeError, whenFailed } from "./process/fatal-errors.ts";
import { secretsIn } from "./config/secret.ts";
import { readSettings } from "./config/load.ts";
import { describePortInUse, gatewayPorts } from "./process/port-in-use.ts";
import { whenToldToReload, whenToldToStop } from "./process/signals.ts";

/** How long the log's last lines may take to be written. */
const FLUSH_MS = 1_000;

/**
 * `npm start`: runs until SIGTERM or SIGINT; a second one ends it at once. Exit code 0 where it was told to
 * stop and has; 1 where it cannot start, an error was caught by nobody, or stopping took too long.
 */
export async function main(env: Environment = processEnvironment()): Promise<void> {
  const source = readSettings(env, checkWarmList);
  if (source === undefined) return;
  const { config } = source.first;
  const keys = createPrivateKeys(config.upstream.privateKey, secretsIn(config));
  const log = createLogger({ level: config.log.level, secrets: keys.known });
  const end = watchForEnd(log);
  let gateway: Gateway | undefined;
  whenToldToReload(() => gateway?.reload());
  let what = "property-gateway cannot start";
  try {
    gateway = createGateway({ source, keys, clock: systemClock, random: systemRandom, log });
    what = "property-gateway cannot listen";
    const { callers, admin } = await gateway.start();
    log.info({ callers: callers.url, admin: admin.url, node: process.version }, "property-gateway listens");
  } catch (error) {
    // What an operator wrote is told as all mistakes in the settings are: a line each.
    const told =
      error instanceof ConfigError ? error.message : describePortInUse(error, gatewayPorts(config));
    if (told !== undefined) process.stderr.write(`${told}\n`);
    else log.fatal({ error: describeError(error) }, what);
    if (gateway !== undefined) await stop(gateway, log);
    return await exit(1);
  }
  await stop(gateway, log, await end.begins);
  log.info("stopped");
  await exit(end.hasFailed() ? 1 : 0);
}

/** Stops it, and ends the process where that takes too long: half dead is worse than dead. */
async function stop(gateway: Gateway, log: Logger, options?: StopOptions): Promise<void> {
  const cancel = systemClock.after(gateway.longestStopMs(), () => {
    log.fatal("stopping took too long");
    void exit(1);
  });
  await gateway.stop(options);
  cancel();
}

interface EndWatch {
  /** The process was told to stop, or something failed that nobody has caught. */
  readonly begins: Promise<StopOptions>;
  /** Something has failed by now. */
  readonly hasFailed: () => boolean;
}

function watchForEnd(log: Logger): EndWatch {
  const { promise, resolve } = Promise.withResolvers<StopOptions>();
  let hasFailed = false;
  whenFailed(({ error, origin }) => {
    hasFailed = true;
    resolve({ isPatient: true });
    log.fatal({ error: describeError(error), origin }, "an error was caught by nobody: stopping");
  });
  whenToldToStop((signal) => {
    log.info({ signal }, "stopping: not ready any more, requests in flight are finished");
    // At a terminal there is no balancer that would have to notice.
    resolve({ isPatient: signal === "SIGTERM" });
  });
  return { begins: promise, hasFailed: () => hasFailed };
}

/** Ends the process when all that was logged is written. */
async function exit(code: number): Promise<never> {
  systemClock.after(FLUSH_MS, () => process.exit(code));
  await new Promise<void>((resolve) => void process.stdout.write("", () => resolve()));
  process.exit(code);
}
