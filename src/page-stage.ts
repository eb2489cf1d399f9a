/**
 * Wires the stage that cuts pages from blocks. It gets the blocks from the cache, and keeps the pages in the memory tier.
 */
import type { AnswerAtOnce, Cache } from "./cache/cache.ts";
import { isCompressible, transcode } from "./cache/encoder.ts";
import type { MemoryStore } from "./cache/store/memory.ts";
import type { Tiers } from "./cache/store/tiered.ts";
import type { LiveSettings } from "./config/live.ts";
import { createPages, type Pages } from "./pages/pages.ts";
import type { PagesOptions } from "./pages/parts.ts";
import type { Clock } from "./process/clock.ts";
import type { Random } from "./process/random.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { LearnedStore, Observer } from "./types.ts";

export interface PageStageOptions extends Pick<PagesOptions, "refresh" | "budgetLeft"> {
  readonly cache: Cache;
  readonly answerAtOnce: AnswerAtOnce;
  readonly memory: MemoryStore;
  readonly tiers: Pick<Tiers, "lookup" | "judge" | "keepInMemory">;
  readonly learned: LearnedStore | undefined;
  readonly settings: LiveSettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Pick<Metrics, "pageChecked" | "derivedChecked">;
  readonly observer: Observer;
}

export function createPageStage(options: PageStageOptions): Pages {
  const { cache, answerAtOnce, tiers, settings, metrics } = options;
  const { info, warn, error } = options.observer;
  return createPages({
    ...options,
    ask: cache,
    askAtOnce: answerAtOnce,
    keepInMemory: tiers.keepInMemory,
    async peek(key) {
      const found = await tiers.lookup(key);
      return found?.isPurged === false ? found.entry : undefined;
    },
    transcode,
    isCompressible,
    settings: () => settings.current().pages,
    derive: {
      settings: () => settings.current().derive,
      learned: options.learned,
      isPurged: (key, entry) =>
        tiers.judge(key, { entry, tier: "memory", isPurged: false })?.isPurged !== false,
    },
    observer: {
      info,
      warn,
      error,
      pageChecked: metrics.pageChecked,
      derivedChecked: metrics.derivedChecked,
    },
  });
}
