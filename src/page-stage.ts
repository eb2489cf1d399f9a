/**
 * Wires the stage that cuts pages from blocks. It gets the blocks from the cache, and keeps the pages in the memory tier.
 */
import type { AnswerAtOnce, Cache } from "./cache/cache.ts";
import { isCompressible, transcode } from "./cache/encoder.ts";
import type { MemoryStore } from "./cache/store/memory.ts";
import type { Tiers } from "./cache/store/tiered.ts";
import type { LiveSettings } from "./config/live.ts";
import { createPages, type Pages, type PagesOptions } from "./pages/pages.ts";
import type { Clock } from "./process/clock.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { Observer } from "./telemetry/events.ts";

export interface PageStageOptions extends Pick<PagesOptions, "refresh" | "budgetLeft"> {
  readonly cache: Cache;
  readonly answerAtOnce: AnswerAtOnce;
  readonly memory: MemoryStore;
  readonly tiers: Pick<Tiers, "lookup" | "keepInMemory">;
  readonly settings: LiveSettings;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, "pageChecked">;
  readonly observer: Observer;
}

export function createPageStage(options: PageStageOptions): Pages {
  const { cache, answerAtOnce, tiers, settings, metrics, observer } = options;
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
    isOn: () => settings.current().pages.fold === "on",
    observer: { ...observer, pageChecked: metrics.pageChecked },
  });
}
