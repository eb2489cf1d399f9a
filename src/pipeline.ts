/**
 * The journey of a request, top to bottom. The stages are passed in, and none of them knows another one.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { Cache } from "./cache/cache.ts";
import type { Admit } from "./http/admit.ts";
import type { Arrive } from "./http/arrive.ts";
import type { Refuse, Respond } from "./http/respond.ts";
import type { Understand } from "./http/understand.ts";
import type { Question } from "./types.ts";
import type { Query, StreamedQuery } from "./query/query.ts";
import type { PassThrough } from "./upstream/pass-through.ts";

export interface Stages {
  readonly arrive: Arrive;
  readonly admit: Admit;
  readonly understand: Understand;
  /** Looks up and stores. On a miss: one flight per question [ one permit, signature and fetch per attempt ]. */
  readonly cache: Cache;
  readonly passThrough: PassThrough;
  readonly respond: Respond;
  readonly refuse: Refuse;
}

export type Journey = (message: IncomingMessage, response: ServerResponse) => Promise<void>;

export function createPipeline(stages: Stages): Journey {
  return async function journey(message, response) {
    const arrival = stages.arrive(message, response);
    try {
      const request = stages.admit(arrival, message);
      const question = stages.understand(request);
      arrival.query = question.canonicalQuery;
      if (isCacheable(question)) {
        const answer = await stages.cache(question);
        await stages.respond.answer(arrival, question, answer, response);
      } else {
        const sink = stages.respond.stream(arrival, question, response);
        await stages.passThrough(question, message, sink);
      }
    } catch (error) {
      stages.refuse(arrival, error, response);
    }
  };
}

/** Whether the answer may come from the cache and be stored there. All others are passed through. */
function isCacheable(question: Question<Query | StreamedQuery>): question is Question {
  const { noStore, onlyIfCached } = question.request.directives;
  return question.query.kind !== "streamed" && (!noStore || onlyIfCached);
}
