import type { Backend, BackendEvent } from "../../src/cache/store/backend.ts";
import { UNSEEN } from "../../src/cache/change-rate.ts";
import { createRedisBackend, type RedisBackendOptions } from "../../src/cache/store/redis-backend.ts";
import type { Entry } from "../../src/types.ts";
import type { BreakerState } from "../../src/redis/breaker.ts";
import { systemClock } from "../../src/process/clock.ts";
import { systemRandom } from "../../src/process/random.ts";
import type { RedisSettings } from "../../src/redis/connect.ts";

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
