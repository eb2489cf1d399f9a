/**
 * Faults on demand: what a request meets instead of, or on its way to, a proper answer.
 */

/** What a fault does. Several members of one fault act together. */
export interface Effects {
  /** The answer starts this much later. */
  readonly latencyMs?: number;
  /** Answered with this status, whatever was asked. */
  readonly status?: number;
  /** `Retry-After`, written as given. */
  readonly retryAfter?: string;
  /** `headers`: nothing is ever answered; `body`: headers and half the body come, then nothing. */
  readonly hang?: "headers" | "body";
  /** Half of the announced body comes, then the connection breaks. */
  readonly cutBody?: boolean;
  /** The connection breaks before anything is answered. */
  readonly disconnect?: boolean;
  /** 200 with a body that is not JSON. */
  readonly wrongJson?: boolean;
  /** 200 with JSON that is not an answer of the interface. */
  readonly wrongEnvelope?: boolean;
  /** The body is filled up with blanks to so many bytes. */
  readonly oversizeBytes?: number;
  /** 302 to another path of the sandbox. */
  readonly redirect?: boolean;
  /** The sandbox's clock, in `Date` and in the check of `time`, is ahead (or, below zero, behind). */
  readonly clockSkewSeconds?: number;
}

export interface Fault extends Effects {
  /** How many requests are hit; absent: all, until a reset. */
  readonly times?: number;
  /** Only requests whose path starts so. */
  readonly pathPrefix?: string;
}

/** A fault that is not well formed; the message says which member and why. */
export class BadFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = "BadFault";
  }
}

export interface FaultQueue {
  /** @throws BadFault */
  readonly add: (...faults: Fault[]) => void;
  /** Faults still to come, `times` being what is left. */
  readonly list: () => Fault[];
  readonly clear: () => void;
  /** What a request to this path meets; uses up one of `times` of the faults that hit it. */
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
const mark: Check = { wanted: "true or false", holds: (value) => typeof value === "boolean" };

const CHECKS: Record<keyof Fault, Check> = {
  latencyMs: integerWithin(0, 3_600_000),
  status: integerWithin(200, 599),
  retryAfter: text,
  hang: { wanted: '"headers" or "body"', holds: (value) => value === "headers" || value === "body" },
  cutBody: mark,
  disconnect: mark,
  wrongJson: mark,
  wrongEnvelope: mark,
  oversizeBytes: integerWithin(0, MAX_OVERSIZE_BYTES),
  redirect: mark,
  clockSkewSeconds: integerWithin(-1e9, 1e9),
  times: integerWithin(1, 1e9),
  pathPrefix: text,
};

const KNOWN: ReadonlyMap<string, Check> = new Map(Object.entries(CHECKS));

/**
 * Checks what a caller of the control port sent.
 * @throws BadFault where a member is unknown or has an impossible value
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

/** Whether a fault only slows or skews, and so goes together with those that change the answer. */
function isCondition(fault: Fault): boolean {
  const {
    latencyMs: _latency,
    clockSkewSeconds: _skew,
    times: _times,
    pathPrefix: _path,
    ...changes
  } = fault;
  return Object.keys(changes).length === 0;
}

interface Queued {
  readonly fault: Fault;
  left: number;
}

/**
 * A request is hit by every matching fault that only slows or skews, and of those that change the answer
 * by the first in the queue: so "twice 503, then a cut body" is three requests in a row.
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
      for (const queued of hit) queued.left -= 1;
      queue = queue.filter(({ left }) => left > 0);
      const sum = (of: (fault: Fault) => number | undefined): number =>
        hit.reduce((total, { fault }) => total + (of(fault) ?? 0), 0);
      return {
        ...change?.fault,
        latencyMs: sum((fault) => fault.latencyMs),
        clockSkewSeconds: sum((fault) => fault.clockSkewSeconds),
      };
    },
  };
}
