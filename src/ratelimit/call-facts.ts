/**
 * What the budget needs to know about an upstream call: who waits for it, why it is made, and how it ended.
 */
import type { Problem } from "../errors.ts";
import type { Priority, Cause, UpstreamFaultKind } from "../telemetry/events.ts";
import type { Resource } from "../interface/resources.ts";

/** A call that may be charged to this app. */
export interface AppCall {
  readonly app: string;
  readonly priority: Priority;
}

/** @returns the problem for a waiter whose deadline has passed; `undefined` if the call has left the queue */
export type RefuseLate = (waiter: AppCall) => Problem | undefined;

/** What the queue needs to know about the waiters of an upstream call. */
export interface Waiting {
  /** Aborted when the call has no waiters left. A queued call is then withdrawn and costs nothing. */
  readonly abandoned: AbortSignal;
  /** The latest deadline of the waiters. A call that is still queued then is withdrawn. Epoch milliseconds. */
  readonly deadlineAt: () => number;
  /** The priority of the most urgent waiter so far. */
  readonly priority: () => Priority;
  /** The apps that wait now, the longest waiting first. Each of them may pay. */
  readonly apps: () => readonly string[];
  /** Calls back when `priority` becomes more urgent, or when `apps` changes and there are still waiters. */
  readonly onChange: (listen: () => void) => void;
  /** Call it when the call enters the queue. `refuseLate` returns the problem for a waiter whose deadline passes there. */
  readonly inQueue: (refuseLate: RefuseLate) => void;
}

/** A request to the upstream that needs a permit. */
export interface UpstreamRequest {
  /** The app that started the call. This app pays, unless the queue chooses another waiting app first. */
  readonly app: string;
  readonly cause: Cause;
  readonly resource: Resource;
  /** The canonical query. The ledger stores only a hash of it. */
  readonly query: string;
  /** Whether this is a retry with new credentials. It does not use the retry budget, because the upstream works. */
  readonly hasNewCredentials?: boolean | undefined;
  readonly waiting: Waiting;
}

/** How a request to the upstream ended. Durations in milliseconds, from the sending of the request. */
export interface SendEnd {
  /** The HTTP status, or the kind of failure. */
  readonly status: number | UpstreamFaultKind;
  /** When the head of the answer arrived or the request failed. The request cannot reach the upstream after that. */
  readonly arrivedAfterMs: number;
  readonly durationMs: number;
  /** Set if the upstream needs a pause. */
  readonly slowDown?: {
    readonly cause: "too-many-requests" | "unavailable" | "unreachable";
    /** The length of the pause, if the upstream specified one. */
    readonly forMs: number | undefined;
  };
}

/** What a call needs to know about its permit. */
export interface SendPermit {
  /**
   * The latest instant (monotonic clock) at which the call may be written to a connected socket. Read the clock in the tick
   * that writes, because the process may have been frozen before it.
   */
  readonly sendBy?: number;
}

/** Sends a call with its permit, and reports how it ended. Only the first report counts. */
export type Send<T> = (ended: (end: SendEnd) => void, permit: SendPermit) => Promise<T>;

/**
 * Sends a call as soon as the budget permits the request. Rejects without sending it if the request gets no permit before its
 * deadline, or cannot get one: with `temporary-reduced-capacity`, `quota-exceeded` or `upstream-unavailable`.
 */
export type Throttled = <T>(request: UpstreamRequest, send: Send<T>) => Promise<T>;

/** The apps that may be charged for a call: those that wait for it, the longest waiting first, else the app that started it. */
export function chargesOf({ app, waiting }: UpstreamRequest): [AppCall, ...AppCall[]] {
  const priority = waiting.priority();
  const [first = app, ...others] = waiting.apps();
  return [{ app: first, priority }, ...others.map((other) => ({ app: other, priority }))];
}
