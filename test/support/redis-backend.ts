import type { Backend, BackendEvent } from "../../src/cache/backend.ts";
import { UNSEEN } from "../../src/cache/pace.ts";
import { createRedisBackend, type RedisBackendOptions } from "../../src/cache/redis-backend.ts";
import type { Entry } from "../../src/exchange.ts";
import type { BreakerState } from "../../src/platform/breaker.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { systemRandom } from "../../src/platform/random.ts";
import type { RedisSettings } from "../../src/platform/redis.ts";

/** A backend, and what became known of it. */
export interface WatchedBackend extends Backend {
  readonly events: BackendEvent[];
  readonly states: BreakerState[];
  readonly warnings: string[];
  readonly infos: string[];
  /** Commands given so far, those the breaker refused included. */
  readonly operations: () => number;
}

/** A backend with real time and, unless told otherwise, more patience than a busy machine needs. */
export function openRedisBackend(
  connect: RedisSettings,
  options: Partial<RedisBackendOptions> = {},
): WatchedBackend {
  const events: BackendEvent[] = [];
  const states: BreakerState[] = [];
  const warnings: string[] = [];
  const infos: string[] = [];
  let operations = 0;
  const backend = createRedisBackend({
    connect,
    clock: systemClock,
    random: systemRandom,
    commandTimeoutMs: 2_000,
    probeIntervalMs: 100,
    retentionMs: 86_400_000,
    observer: {
      warn: (message, fields) => void warnings.push(`${message}: ${String(fields["cause"])}`),
      info: (message) => void infos.push(message),
    },
    onOperation: () => void operations++,
    onBreaker: (state) => void states.push(state),
    ...options,
  });
  backend.onEvent((event) => void events.push(event));
  return { ...backend, events, states, warnings, infos, operations: () => operations };
}

/** An entry stored now, for a day. */
export function entryOf(body: string, fields: Partial<Entry> = {}): Entry {
  const storedAt = fields.storedAt ?? Date.now();
  return {
    status: 200,
    contentType: "application/json",
    bodies: { identity: Buffer.from(body) },
    bodyBytes: Buffer.byteLength(body),
    etag: "tag",
    validators: { etag: undefined, lastModified: undefined },
    tags: [],
    purgeEpoch: 0,
    storedAt,
    bornAt: storedAt,
    fetchMs: 0,
    upstreamStale: {},
    pace: UNSEEN,
    freshUntil: storedAt + 60_000,
    keepUntil: storedAt + 86_400_000,
    ...fields,
  };
}
