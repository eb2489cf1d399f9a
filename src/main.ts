/**
 * The process of `npm start`: settings, start, signals, stop, exit code.
 */
import { createGateway, type Gateway } from "./app.ts";
import type { GatewayOptions } from "./context.ts";
import { createLogger, type Logger } from "./telemetry/log.ts";
import { systemClock } from "./process/clock.ts";
import { type Config, ConfigError } from "./config/config.ts";
import { type Environment, processEnvironment } from "./config/env.ts";
import { systemRandom } from "./process/random.ts";
import { readSettings } from "./config/load.ts";
import { readTracing } from "./config/tracing.ts";
import { openFilesLimit } from "./process/open-files.ts";
import { logPlainText } from "./process/plain-text.ts";
import { describePortInUse } from "./process/listen.ts";
import { describeError, onParentGone, onStopSignal, onUncaughtError } from "./process/signals.ts";

/** The longest time for writing the last log lines. */
const FLUSH_MS = 1_000;

/**
 * Runs the gateway until SIGTERM or SIGINT. A second signal ends it immediately. The exit code is 0 after an orderly stop, and
 * 1 if the gateway cannot start, if an error was not caught, or if the stop took too long.
 * @param onListening called when the gateway listens; the demo starts its traffic then
 */
export async function main(
  env: Environment = processEnvironment(),
  onListening?: (addresses: Awaited<ReturnType<Gateway["start"]>>) => void,
): Promise<void> {
  const source = readSettings(env);
  if (source === undefined) return;
  const { config } = source.first;
  const log = createLogger({ level: config.log.level, secrets: source.keys.known });
  logPlainText(log);
  const end = watchForEnd(log, env["npm_lifecycle_event"] === "start");
  let gateway: Gateway | undefined;
  // By convention, SIGHUP tells a process to read its settings again.
  process.on("SIGHUP", () => gateway?.reload());
  let what = "property-gateway cannot start";
  try {
    const createTracing = await tracingFor(env);
    gateway = createGateway({
      source,
      clock: systemClock,
      random: systemRandom,
      log,
      createTracing,
      openFiles: openFilesLimit(),
    });
    what = "property-gateway cannot listen";
    const { callers, admin } = await gateway.start();
    log.info({ callers: callers.url, admin: admin.url, node: process.version }, "property-gateway listens");
    onListening?.({ callers, admin });
  } catch (error) {
    // Mistakes that an operator can correct are printed, one line each, and not logged.
    const message = error instanceof ConfigError ? error.message : describePortInUse(error, portsOf(config));
    if (message !== undefined) process.stderr.write(`${message}\n`);
    else log.fatal({ error: describeError(error) }, what);
    if (gateway !== undefined) await stop(gateway, log);
    return await exit(log, 1);
  }
  await stop(gateway, log, await end.begins);
  log.info("stopped");
  await exit(log, end.hasFailed() ? 1 : 0);
}

/** The ports, and how to change them. */
function portsOf({ server, admin }: Config): Record<number, string> {
  return {
    [server.port]: "--port, PORT or server.port",
    [admin.port]: "--admin-port, ADMIN_PORT or admin.port",
  };
}

/** OpenTelemetry is loaded only if the environment asks for it. Throws if its packages, which are optional, are not installed. */
async function tracingFor(env: Environment): Promise<GatewayOptions["createTracing"]> {
  const { protocol } = readTracing(env);
  if (protocol === undefined) return undefined;
  const { loadTracing } = await import("./telemetry/tracing.ts");
  return await loadTracing(protocol);
}

/** Stops the gateway. If that takes too long, ends the process, because a hanging process would delay a restart. */
async function stop(gateway: Gateway, log: Logger, withDelay?: boolean): Promise<void> {
  const cancel = systemClock.after(gateway.longestStopMs(), () => {
    log.fatal("Stopping took too long. The process ends now.");
    void exit(log, 1);
  });
  await gateway.stop(withDelay);
  cancel();
}

/**
 * @param isFromNpm whether `npm start` started the process
 * @returns `begins` resolves at a stop signal or an uncaught error, to whether load balancers must notice the stop; and whether
 *   there was an uncaught error
 */
function watchForEnd(log: Logger, isFromNpm: boolean) {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let hasFailed = false;
  onUncaughtError((error, origin) => {
    hasFailed = true;
    resolve(true);
    log.fatal({ error: describeError(error), origin }, "An error was not caught. The process stops.");
  });
  onStopSignal((signal) => {
    log.info({ signal }, "Stopping. The process is no longer ready, and finishes the requests in flight.");
    // A SIGINT usually comes from a terminal, where there is no load balancer that must notice the stop.
    resolve(signal === "SIGTERM");
  });
  if (isFromNpm) {
    onParentGone(systemClock, () => {
      log.info("Stopping, because npm has ended.");
      resolve(true);
    });
  }
  return { begins: promise, hasFailed: () => hasFailed };
}

/** Ends the process when all log lines are written. */
async function exit(log: Logger, code: number): Promise<never> {
  systemClock.after(FLUSH_MS, () => process.exit(code));
  await new Promise((resolve) => log.writeAll(resolve));
  process.exit(code);
}
