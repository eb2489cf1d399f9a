/**
 * Faults on demand. They replace, delay or damage a proper answer.
 */
import { validateHeaderName, validateHeaderValue } from "node:http";

/** What a fault does. Several members of one fault act together. */
export interface Effects {
  /** The answer is delayed by this much. */
  readonly latencyMs?: number;
  /** Every request gets this status. */
  readonly status?: number;
  /** `Retry-After`, written as given. */
  readonly retryAfter?: string;
  /** `headers`: nothing is ever sent; `body`: headers and half the body are sent, then nothing. */
  readonly hang?: "headers" | "body";
  /** Half of the announced body is sent, then the connection breaks. */
  readonly cutBody?: boolean;
  /** The connection breaks before anything is sent. */
  readonly disconnect?: boolean;
  /** 200 with a body that is not JSON. */
  readonly wrongJson?: boolean;
  /** 200 with JSON that is not an answer of the interface. */
  readonly wrongEnvelope?: boolean;
  /** The body is padded with spaces to this size. */
  readonly oversizeBytes?: number;
  /** 302 to another path of the sandbox. */
  readonly redirect?: boolean;
  /** How far the sandbox's clock is ahead, in `Date` and in the check of `time`; below zero: behind. */
  readonly clockSkewSeconds?: number;
  /** Headers to add or replace on an otherwise proper answer (200 and 304). */
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON with the same meaning in other bytes. Pictures do not change. */
  readonly respell?: boolean;
}

export interface Fault extends Effects {
  /** How many requests it affects; absent: all, until a reset. */
  readonly times?: number;
  /** Only requests whose path starts with this. */
  readonly pathPrefix?: string;
}

/** A fault that is not well formed. The message names the member and the reason. */
export class BadFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = "BadFault";
  }
}

export interface FaultQueue {
  /** @throws BadFault */
  readonly add: (...faults: Fault[]) => void;
  /** The remaining faults. `times` is how often each one will still apply. */
  readonly list: () => Fault[];
  readonly clear: () => void;
  /** The effects on a request to this path. Uses up one of the `times` of each fault applied. */
  readonly take: (path: string) => Effects;
}

const MAX_OVERSIZE_BYTES = 256 * 1024 * 1024;

interface Check {
  readonly wanted: string;
  readonly holds: (value: unknown) => boolean;
}

function integerWithin(low: number, high: number): Check {
  return {
    wanted: `an integer from ${low} to ${high}`,
    holds: (value) => typeof value === "number" && Number.isInteger(value) && value >= low && value <= high,
  };
}

const text: Check = { wanted: "a string", holds: (value) => typeof value === "string" };
const flag: Check = { wanted: "true or false", holds: (value) => typeof value === "boolean" };

/** Headers of one connection (RFC 9110, section 7.6.1), and headers that determine how the body is read. */
const FORBIDDEN_HEADERS = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "keep-alive",
  "proxy-authenticate",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

function isHeader([name, value]: [string, unknown]): boolean {
  if (typeof value !== "string" || FORBIDDEN_HEADERS.has(name.toLowerCase())) return false;
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}

const headersCheck: Check = {
  wanted:
    "an object of valid header names and strings, none of them hop-by-hop or about the body's length or encoding",
  holds: (value) =>
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.entries(value).every(isHeader),
};

const CHECKS: Record<keyof Fault, Check> = {
  latencyMs: integerWithin(0, 3_600_000),
  status: integerWithin(200, 599),
  retryAfter: text,
  hang: { wanted: '"headers" or "body"', holds: (value) => value === "headers" || value === "body" },
  cutBody: flag,
  disconnect: flag,
  wrongJson: flag,
  wrongEnvelope: flag,
  oversizeBytes: integerWithin(0, MAX_OVERSIZE_BYTES),
  redirect: flag,
  clockSkewSeconds: integerWithin(-1e9, 1e9),
  headers: headersCheck,
  respell: flag,
  times: integerWithin(1, 1e9),
  pathPrefix: text,
};

const KNOWN: ReadonlyMap<string, Check> = new Map(Object.entries(CHECKS));

/**
 * Checks a fault that a client of the control port sent.
 * @throws BadFault if a member is unknown or has an impossible value
 */
export function checkedFault(value: unknown): Fault {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new BadFault("a fault is an object");
  }
  for (const [name, member] of Object.entries(value)) {
    const check = KNOWN.get(name);
    if (!check) throw new BadFault(`${name} is not known; known: ${[...KNOWN.keys()].join(", ")}`);
    if (!check.holds(member)) throw new BadFault(`${name} must be ${check.wanted}`);
  }
  return value;
}

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
export function createFaultQueue(): FaultQueue {
  let queue: Queued[] = [];

  return {
    add(...faults) {
      const checked = faults.map((fault) => checkedFault(fault));
      queue.push(...checked.map((fault) => ({ fault, left: fault.times ?? Infinity })));
    },
    list() {
      return queue.map(({ fault, left }) => (left === Infinity ? fault : { ...fault, times: left }));
    },
    clear() {
      queue = [];
    },
    take(path) {
      const matching = queue.filter(({ fault }) => path.startsWith(fault.pathPrefix ?? ""));
      const conditions = matching.filter(({ fault }) => isCondition(fault));
      const change = matching.find(({ fault }) => !isCondition(fault));
      const hit = change ? [...conditions, change] : conditions;
      const met = hit.map(({ fault }) => fault);
      for (const queued of hit) queued.left -= 1;
      queue = queue.filter(({ left }) => left > 0);
      const sum = (of: (fault: Fault) => number | undefined): number =>
        met.reduce((total, fault) => total + (of(fault) ?? 0), 0);
      return {
        ...change?.fault,
        latencyMs: sum((fault) => fault.latencyMs),
        clockSkewSeconds: sum((fault) => fault.clockSkewSeconds),
        ...(met.some((fault) => fault.headers) && { headers: headersOf(met) }),
        ...(met.some((fault) => fault.respell) && { respell: true }),
      };
    },
  };
}
