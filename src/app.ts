/**
 * The composition root: everything is made here, and handed to those who draw the parts of it.
 */
import { drawAdmin } from "./draw-admin.ts";
import { drawCallers } from "./draw-callers.ts";
import { drawFoundation } from "./draw-foundation.ts";
import { drawLife, longestStopMs, type StopOptions } from "./draw-life.ts";
import { drawReload, restartReasons } from "./draw-reload.ts";
import { createReadWarmItems } from "./draw-warm.ts";
import { createUnderWay } from "./edge/under-way.ts";
import type { Observer } from "./exchange.ts";
import { watchEventLoop } from "./observe/event-loop.ts";
import { ConfigError } from "./platform/config.ts";
import type { Listening } from "./platform/listen.ts";
import { createLiveSettings } from "./platform/live-settings.ts";
import { followKeyFile, type KeyFile } from "./platform/private-key-file.ts";
import type { SettingsSource } from "./platform/settings-source.ts";
import type { Surroundings } from "./surroundings.ts";

/** What a gateway is made of. */
export interface GatewayOptions extends Pick<Surroundings, "keys" | "clock" | "random" | "log"> {
  readonly source: SettingsSource;
}

export interface Gateway {
  /** Starts both servers. */
  readonly start: () => Promise<{ readonly callers: Listening; readonly admin: Listening }>;
  /**
   * Stops accepting, lets what is in flight finish within `server.drainTimeout`, refuses the rest, and gives
   * back what it holds of what replicas share.
   */
  readonly stop: (options?: StopOptions) => Promise<void>;
  /** The longest that stopping takes, in milliseconds; what takes longer hangs. */
  readonly longestStopMs: () => number;
  /** Reads the settings again; the log says what came of it. */
  readonly reload: () => void;
}

/** @throws {ConfigError} where the list of what is kept warm has mistakes */
export function createGateway(options: GatewayOptions): Gateway {
  const { source, keys, clock, log } = options;
  const { config } = source.first;
  const readWarmItems = createReadWarmItems(source.readFile);
  const { items: warmItems, problems } = readWarmItems(source.first.settings);
  if (problems.length > 0) throw new ConfigError(problems);
  const settings = createLiveSettings(source, restartReasons(config));
  const surroundings: Surroundings = { ...options, config, settings };
  const foundation = drawFoundation(surroundings);
  const { flights, metrics, observer, budgets } = foundation;
  const keyFile = drawKeyFile(options, observer);
  const underWay = createUnderWay();
  const callers = drawCallers(surroundings, {
    ...foundation,
    parse: config.query,
    underWay,
    warmItems,
    lookForKey: () => keyFile?.check(),
  });
  const life = drawLife(() => ({
    clock,
    callers: callers.server,
    admin,
    budgets,
    flights,
    underWay,
    closeStore: foundation.closeStore,
  }));
  const { warm } = callers;
  const reload = drawReload({ settings, keys, budgets, warm, readWarmItems, metrics, log, clock });
  const admin = drawAdmin(surroundings, {
    ...foundation,
    parse: config.query,
    warm: warm.states,
    readiness: life.readiness,
    reload: () => reload("request"),
  });
  const stopWatching = watchEventLoop(metrics.eventLoopDelay);

  return {
    async start() {
      const addresses = await life.start(config);
      callers.start();
      return addresses;
    },
    async stop(how) {
      callers.stop();
      await life.stop(settings.current(), how);
      keyFile?.close();
      stopWatching();
    },
    reload: () => reload("SIGHUP"),
    longestStopMs: () => longestStopMs(settings.current()),
  };
}

/** Follows the file that the private key is in, where it is in one. */
function drawKeyFile({ source, keys, clock }: GatewayOptions, { info, warn }: Observer): KeyFile | undefined {
  const { readFile, first } = source;
  const path = first.config.upstream.privateKeyFile;
  return path === null ? undefined : followKeyFile({ path, keys, clock, readFile, info, warn });
}
