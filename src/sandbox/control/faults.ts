/**
 * Faults on demand. They replace, delay or damage a proper answer.
 */
import { validateHeaderName, validateHeaderValue } from "node:http";

import { z } from "zod";

const MAX_OVERSIZE_BYTES = 256 * 1024 * 1024;

/** Headers of one connection (RFC 9110, section 7.6.1), and headers that determine how the body is read. */
const FORBIDDEN_HEADER =
  /^(connection|content-(encoding|length)|keep-alive|proxy-(authenticate|connection)|te|trailer|transfer-encoding|upgrade)$/i;

function isHeader(name: string, value: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return !FORBIDDEN_HEADER.test(name);
  } catch {
    return false;
  }
}

/** What a fault does. Several members of one fault act together. */
const EFFECTS = {
  /** The answer is delayed by this much. */
  latencyMs: z.int().min(0).max(3_600_000).exactOptional(),
  /** Every request gets this status. */
  status: z.int().min(200).max(599).exactOptional(),
  /** `Retry-After`, written as given. */
  retryAfter: z.string().exactOptional(),
  /** `headers`: nothing is ever sent; `body`: headers and half the body are sent, then nothing. */
  hang: z.enum(["headers", "body"]).exactOptional(),
  /** Half of the announced body is sent, then the connection breaks. */
  cutBody: z.boolean().exactOptional(),
  /** The connection breaks before anything is sent. */
  disconnect: z.boolean().exactOptional(),
  /** 200 with a body that is not JSON. */
  wrongJson: z.boolean().exactOptional(),
  /** 200 with JSON that is not an answer of the interface. */
  wrongEnvelope: z.boolean().exactOptional(),
  /** The body is padded with spaces to this size. */
  oversizeBytes: z.int().min(0).max(MAX_OVERSIZE_BYTES).exactOptional(),
  /** 302 to another path of the sandbox. */
  redirect: z.boolean().exactOptional(),
  /** How far the sandbox's clock is ahead, in `Date` and in the check of `time`; below zero: behind. */
  clockSkewSeconds: z.int().min(-1e9).max(1e9).exactOptional(),
  /** Headers to add or replace on an otherwise proper answer (200 and 304). */
  headers: z
    .record(z.string(), z.string())
    .refine((headers) => Object.entries(headers).every(([name, value]) => isHeader(name, value)))
    .exactOptional(),
  /** JSON with the same meaning in other bytes. Pictures do not change. */
  respell: z.boolean().exactOptional(),
};

export const FAULT = z.strictObject({
  ...EFFECTS,
  /** How many requests it affects; absent: all, until a reset. */
  times: z.int().min(1).max(1e9).exactOptional(),
  /** Only requests whose path starts with this. */
  pathPrefix: z.string().exactOptional(),
});

export type Fault = Readonly<z.infer<typeof FAULT>>;
export type Effects = Omit<Fault, "times" | "pathPrefix">;

/** Whether a fault keeps the meaning of the answer. Such faults combine with one that changes it. */
function isCondition(fault: Fault): boolean {
  const {
    latencyMs: _latency,
    clockSkewSeconds: _skew,
    headers: _headers,
    respell: _respell,
    times: _times,
    pathPrefix: _path,
    ...changes
  } = fault;
  return Object.keys(changes).length === 0;
}

/** The headers of several faults, names in lower case. The last value of a name counts. */
function headersOf(faults: readonly Fault[]): Record<string, string> {
  const given = faults.flatMap((fault) => Object.entries(fault.headers ?? {}));
  return Object.fromEntries(given.map(([name, value]) => [name.toLowerCase(), value]));
}

interface Queued {
  readonly fault: Fault;
  left: number;
}

/**
 * Every matching fault that keeps the meaning of the answer applies: latency, skew, headers, respelling. Of the faults
 * that change the meaning, only the first in the queue applies. So "twice 503, then a cut body" affects three requests.
 */
export class FaultQueue {
  #queue: Queued[] = [];

  /** @throws {z.ZodError} if a fault is not well formed */
  add(...faults: Fault[]): void {
    const checked = faults.map((fault) => FAULT.parse(fault));
    this.#queue.push(...checked.map((fault) => ({ fault, left: fault.times ?? Infinity })));
  }

  /** The remaining faults. `times` is how often each one will still apply. */
  list(): Fault[] {
    return this.#queue.map(({ fault, left }) => (left === Infinity ? fault : { ...fault, times: left }));
  }

  clear(): void {
    this.#queue = [];
  }

  /** The effects on a request to this path. Uses up one of the `times` of each fault applied. */
  take(path: string): Effects {
    const matching = this.#queue.filter(({ fault }) => path.startsWith(fault.pathPrefix ?? ""));
    const conditions = matching.filter(({ fault }) => isCondition(fault));
    const change = matching.find(({ fault }) => !isCondition(fault));
    const hit = change ? [...conditions, change] : conditions;
    const met = hit.map(({ fault }) => fault);
    for (const queued of hit) queued.left -= 1;
    this.#queue = this.#queue.filter(({ left }) => left > 0);
    const sum = (of: (fault: Fault) => number | undefined): number =>
      met.reduce((total, fault) => total + (of(fault) ?? 0), 0);
    return {
      ...change?.fault,
      latencyMs: sum((fault) => fault.latencyMs),
      clockSkewSeconds: sum((fault) => fault.clockSkewSeconds),
      ...(met.some((fault) => fault.headers) && { headers: headersOf(met) }),
      ...(met.some((fault) => fault.respell) && { respell: true }),
    };
  }
}
