/**
 * arrive: gives each request an id and finds its app. follow: logs and counts the request when it ends, and knows which
 * requests are open.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Answer } from "../cache/cache.ts";
import type { Context } from "../context.ts";
import type { Problem } from "../errors.ts";
import type { Random } from "../process/random.ts";
import type { KnownTarget } from "../query/known-targets.ts";
import type { RequestRecord } from "../telemetry/events.ts";
import type { RequestTrace, Tracing } from "../telemetry/tracing.ts";
import { isSent } from "./edge/connections.ts";
import type { Identify } from "./identify-app.ts";

export interface ArrivalOptions extends Pick<Context, "clock" | "observer"> {
  readonly random: Pick<Random, "requestId">;
  /** Absent if requests are not traced. */
  readonly tracing?: Pick<Tracing, "start"> | undefined;
  readonly identify: Identify;
  /** The present CORS rules. `headersFor` returns the headers for an origin, alternating names and values. */
  readonly cors: () => { readonly headersFor: (origin?: string) => readonly string[] };
}

/** A request on its way through the stages, and its response. */
export class Arrival {
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
  /** The target as the caller wrote it. */
  readonly target: string;
  /** What logs and metrics show of the request. The stages fill it in. */
  readonly record: { -readonly [Field in keyof RequestRecord]: RequestRecord[Field] };
  /** When it arrived, on the clock `precise`. */
  readonly startedAt: number;
  readonly corsHeaders: readonly string[];
  readonly trace: RequestTrace | undefined;
  /** Value of `Preference-Applied` (RFC 7240, section 3). */
  preferenceApplied: string | undefined;
  /** The target, if it was parsed before. */
  known: KnownTarget | undefined;
  /** The answer, if it is in memory. */
  cached: Answer | undefined;
  /** The problem for which the gateway cut its response. */
  cutFor: Problem | undefined;
  #gone: AbortController | undefined;

  constructor(message: IncomingMessage, response: ServerResponse, options: ArrivalOptions) {
    const { clock, random, tracing, identify, cors } = options;
    const { headers, method = "", url = "/" } = message;
    const receivedAt = clock.now();
    this.message = message;
    this.response = response;
    this.target = url;
    this.trace = tracing?.start(message);
    this.corsHeaders = cors().headersFor(headers.origin);
    this.startedAt = clock.precise();
    this.record = {
      id: usableId(headers["x-request-id"]) ?? random.requestId(),
      app: identify.appOf(headers, receivedAt),
      method,
      resource: "none",
      query: undefined,
      status: 0,
      outcome: "refused",
      tier: undefined,
      problem: undefined,
      durationMs: 0,
      bytes: 0,
      receivedAt,
      traceparent: this.trace?.traceparent,
    };
  }

  /**
   * @returns the signal that aborts when the caller hangs up before the response is complete. The first call creates it,
   *   because most hits do not need it.
   */
  readonly gone = (): AbortSignal => (this.#gone ??= new AbortController()).signal;

  /** Call it when the caller has hung up. */
  hangUp(): void {
    (this.#gone ??= new AbortController()).abort();
  }
}

/** @returns the caller's own request id, if it is safe in a header and in a log line */
function usableId(given: string | string[] | undefined): string | undefined {
  return typeof given === "string" && /^[\w.:/+=@-]{1,128}$/.test(given) ? given : undefined;
}

/** The status in logs and metrics for a request whose caller hung up. No response has this status. */
const CLIENT_CLOSED_REQUEST = 499;

/** The requests that have arrived and whose responses have not ended. When the process stops, each is finished or refused. */
export class Arrivals {
  readonly #options: ArrivalOptions;
  readonly #open = new Set<Arrival>();
  #isDraining = false;

  constructor(options: ArrivalOptions) {
    this.#options = options;
  }

  /** The first stage of every request. */
  arrive(message: IncomingMessage, response: ServerResponse): Arrival {
    if (this.#isDraining) response.shouldKeepAlive = false;
    return new Arrival(message, response, this.#options);
  }

  /**
   * Records the end of the request: immediately if the kernel already has the whole response, otherwise when the response
   * closes. Call it in the same tick as `arrive`, after all synchronous work.
   */
  follow(arrival: Arrival): void {
    const { message, response, record } = arrival;
    if (isSent(response)) return this.#end(arrival);
    // Reading the address makes Node remember it. Once the caller has hung up, it is no longer available.
    void message.socket.remoteAddress;
    this.#open.add(arrival);
    response.once("close", () => {
      this.#open.delete(arrival);
      if (!response.writableFinished) {
        arrival.hangUp();
        record.outcome = arrival.cutFor ? "failed" : "abandoned";
        record.problem = arrival.cutFor?.code ?? record.problem;
      }
      this.#end(arrival);
    });
  }

  #end({ message, response, record, startedAt, trace, cutFor }: Arrival): void {
    record.status =
      cutFor?.status ?? (record.outcome === "abandoned" ? CLIENT_CLOSED_REQUEST : response.statusCode);
    record.durationMs = this.#options.clock.precise() - startedAt;
    trace?.end(record);
    this.#options.observer.request(record, message);
  }

  /**
   * Adds `Connection: close` to every response from now on (RFC 9112, section 9.6). Callers and load balancers then open
   * their next connection to another replica, and send no request on a connection that is about to close.
   */
  drain(): void {
    this.#isDraining = true;
    for (const { response } of this.#open) if (!response.headersSent) response.shouldKeepAlive = false;
  }

  /** Refuses every request that has no response yet. */
  refuseAll(problem: Problem, refuse: (arrival: Arrival, problem: Problem) => void): void {
    // Once the head of a response is sent, the response cannot be changed.
    for (const arrival of this.#open) if (!arrival.response.headersSent) refuse(arrival, problem);
  }
}
