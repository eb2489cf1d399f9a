import type { Logger } from "./telemetry/log.ts";
import type { Clock } from "./process/clock.ts";
import type { Config } from "./config/config.ts";
import type { LiveSettings } from "./config/live-settings.ts";
import type { PrivateKeys } from "./config/private-keys.ts";
import type { Random } from "./process/random.ts";

/** What the process has that the rest is not to reach for. */
export interface Surroundings {
  /** The settings that the process began with: for what cannot change while it runs. */
  readonly config: Config;
  /** The settings in force: for what can. */
  readonly settings: LiveSettings;
  readonly clock: Clock;
  readonly random: Random;
  /** The private key, which may change; the settings' own is only its first. */
  readonly keys: PrivateKeys;
  readonly log: Logger;
}
