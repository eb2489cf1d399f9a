/**
 * The journey of a request, from top to bottom. The stages are passed in, and no stage imports another one.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { AnswerAtOnce, Cache } from "./cache/cache.ts";
import type { Admit } from "./http/admit.ts";
import type { Arrival, Arrivals } from "./http/arrive.ts";
import type { ServePreflight } from "./http/cors.ts";
import type { ServeDocument } from "./http/document.ts";
import type { Refuse, Respond } from "./http/respond.ts";
import type { Rest, Start } from "./http/http-server.ts";
import type { Understand } from "./http/understand.ts";
import type { Question } from "./types.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import type { PassThrough } from "./upstream/pass-through.ts";

export interface Stages {
  readonly arrivals: Arrivals;
  /** Answers preflights of web pages. No later stage sees them. */
  readonly servePreflight: ServePreflight;
  /** Answers requests for the OpenAPI document. No later stage sees them. */
  readonly serveDocument: ServeDocument;
  readonly admit: Admit;
  readonly understand: Understand;
  /** Looks up and stores. On a miss: one flight per question [ one permit, signature and fetch per attempt ]. */
  readonly cache: Cache;
  /** Looks only into memory. Returns the answer synchronously. */
  readonly answerAtOnce: AnswerAtOnce;
  readonly passThrough: PassThrough;
  readonly respond: Respond;
  readonly refuse: Refuse;
}

/**
 * Creates the pipeline. If the answer is in memory, `start` sends it before it returns. For all other requests, it returns the
 * rest of the work, which may wait for the store or the upstream.
 */
export function createPipeline(stages: Stages): Start {
  const { arrivals, servePreflight, serveDocument, admit, understand } = stages;
  const { answerAtOnce, cache, passThrough, respond, refuse } = stages;

  function begin(arrival: Arrival, message: IncomingMessage, response: ServerResponse): Rest | undefined {
    if (servePreflight(arrival, message, response)) return undefined;
    if (serveDocument(arrival, message, response)) return undefined;
    const request = admit(arrival, message);
    const question = understand(request);
    arrival.query = question.canonicalQuery;
    if (!isCacheable(question)) {
      const sink = respond.stream(arrival, question, response);
      return () => passThrough(question, message, sink);
    }
    const cached = answerAtOnce(question);
    if (cached !== undefined && respond.answerAtOnce(arrival, question, cached, response)) return undefined;
    return async () => await respond.answer(arrival, question, cached ?? (await cache(question)), response);
  }

  return function start(message, response) {
    const arrival = arrivals.arrive(message, response);
    let rest: Rest | undefined;
    try {
      rest = begin(arrival, message, response);
    } catch (error) {
      rest = () => Promise.reject(error);
    }
    arrivals.follow(arrival, message, response);
    return rest && (() => rest().catch((error: unknown) => refuse(arrival, error, response)));
  };
}

/** Whether the answer may come from the cache and be stored there. All others are passed through. */
function isCacheable(question: Question<Query | StreamedQuery>): question is Question {
  const { noStore, onlyIfCached } = question.request.directives;
  return question.query.kind !== "streamed" && (!noStore || onlyIfCached);
}
