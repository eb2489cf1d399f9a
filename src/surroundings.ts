import type { Logger } from "./observe/log.ts";
import type { Clock } from "./platform/clock.ts";
import type { Config } from "./platform/config.ts";
import type { Random } from "./platform/random.ts";

/** What the process has that the rest is not to reach for. */
export interface Surroundings {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}
