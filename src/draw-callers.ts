/**
 * The callers' side, wired: the server with the journey behind it, and what goes on by itself.
 */
import type { Server } from "node:http";

import type { MemoryStore } from "./cache/store/memory.ts";
import type { Backend } from "./cache/store/port.ts";
import { createSweep } from "./cache/sweep.ts";
import type { Warm, WarmItem } from "./cache/warm.ts";
import { type CacheParts, drawCache } from "./draw-cache.ts";
import { drawJourney, type JourneyParts } from "./draw-journey.ts";
import { drawUpstream, type UpstreamParts } from "./draw-upstream.ts";
import { drawWarm } from "./draw-warm.ts";
import { createGatewayServer } from "./http/server.ts";
import type { Surroundings } from "./surroundings.ts";

export interface CallersParts
  extends
    Omit<CacheParts, "fetch">,
    UpstreamParts,
    Pick<JourneyParts, "observer" | "parse" | "underWay" | "budgets"> {
  readonly memory: MemoryStore;
  /** Absent: memory only. */
  readonly backend: Backend | undefined;
  /** What is kept warm to begin with. */
  readonly warmItems: readonly WarmItem[];
}

export interface Callers {
  /** Not yet listening. */
  readonly server: Server;
  readonly warm: Warm;
  /** Begins what goes on by itself: warming, and sweeping out what is past its end. */
  readonly start: () => void;
  readonly stop: () => void;
}

export function drawCallers(surroundings: Surroundings, parts: CallersParts): Callers {
  const { config, clock, random } = surroundings;
  const { tiers, backend, memory } = parts;
  const { ask, passThrough } = drawUpstream(surroundings, parts);
  const { cache, refresh } = drawCache(surroundings, { ...parts, fetch: ask });
  const warm = drawWarm(surroundings, { ...parts, items: parts.warmItems, refresh });
  const sweep = createSweep(backend === undefined ? [memory] : [memory, backend.store], clock);
  const server = createGatewayServer({
    journey: drawJourney(surroundings, { ...parts, cache, passThrough, keepInMemory: tiers.keepInMemory }),
    limits: config.server,
    requestId: random.requestId,
    after: clock.after,
    now: clock.now,
    warn: parts.observer.warn,
  });
  return {
    server,
    warm,
    start() {
      warm.start();
      sweep.start();
    },
    stop() {
      warm.stop();
      sweep.stop();
    },
  };
}
