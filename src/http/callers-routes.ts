/**
 * The callers' port, as an Express app: its addresses, and the journey of a request through the stages.
 *
 * | Address                                               | Answer                                     |
 * |-------------------------------------------------------|--------------------------------------------|
 * | `/listings`, `/sold`, `/areas`                        | a page of a search                         |
 * | `/listings/{serviceId}`, `/sold/{serviceId}`          | one record                                 |
 * | `/cache/primary_{serviceId}_{width}x{height}.jpg`     | a thumbnail                                |
 * | the paths in `upstream.passThrough`                   | the upstream's answer, not cached          |
 * | `/openapi.json`, `/docs`, `/`                         | the description of these addresses         |
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import express, { type NextFunction, type Request, type Response } from "express";

import type { Answer } from "../cache/cache.ts";
import { Problem } from "../errors.ts";
import type { TypedText } from "../interface/media-types.ts";
import type { KnownTarget } from "../query/known-targets.ts";
import type { Question } from "../query/request.ts";
import { type Address, normalisedPath, unknownRoute } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import type { PassThrough } from "../upstream/pass-through.ts";
import { type AdmitOptions, type AnyQuestion, createAdmit } from "./admit.ts";
import { type Arrival, type ArrivalOptions, Arrivals } from "./arrive.ts";
import type { Cors } from "./cors.ts";
import { createServeDocument } from "./document.ts";
import { checkHead, type HeadLimits } from "./edge/request-validation.ts";
import { Respond, type RespondOptions } from "./respond.ts";

/** What the stages need, and the stages that follow. */
export interface CallersAppOptions extends ArrivalOptions, AdmitOptions, RespondOptions {
  /** The addresses that lead to the upstream. */
  readonly addresses: readonly Address[];
  readonly headLimits: HeadLimits;
  readonly cors: () => Cors;
  /** The versions of each document, by path. */
  readonly documents: ReadonlyMap<string, readonly TypedText[]>;
  /** Looks only into memory. Returns the answer synchronously. */
  readonly answerAtOnce: (question: Question) => Answer | undefined;
  /** Looks up and stores. On a miss: one flight per question [ one permit, signature and fetch per attempt ]. */
  readonly cache: (question: Question) => Promise<Answer>;
  readonly passThrough: PassThrough;
}

export type CallersApp = ReturnType<typeof createCallersApp>;

// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createCallersApp(options: CallersAppOptions) {
  const { knownTargets, headLimits } = options;
  const arrivals = new Arrivals(options);
  const admit = createAdmit(options);
  const respond = new Respond(options);
  const app = createApp(options, answer, respond.refuse);

  async function answer(arrival: Arrival, found: KnownTarget): Promise<void> {
    const question = admit(arrival, found);
    if (!isCacheable(question))
      return await options.passThrough(question, arrival.message, respond.stream(arrival, question));
    const cached = arrival.cached ?? options.answerAtOnce(question);
    await respond.answer(arrival, question, cached ?? (await options.cache(question)));
  }

  /** Sends the answer to a known target if it is in memory. Express meets the same errors, and refuses the request. */
  function answerAtOnce(arrival: Arrival): boolean {
    const { message, target, known } = arrival;
    if (known === undefined || (message.method !== "GET" && message.method !== "HEAD")) return false;
    try {
      checkHead(message, headLimits, target);
      const question = admit(arrival, known);
      if (!isCacheable(question)) return false;
      const cached = options.answerAtOnce(question);
      arrival.cached = cached;
      return cached !== undefined && respond.answerAtOnce(arrival, question, cached);
    } catch {
      return false;
    }
  }

  return {
    /** Serves one request. */
    serve: (message: IncomingMessage, response: ServerResponse): void => {
      const arrival = arrivals.arrive(message, response);
      arrival.known = knownTargets.find(arrival.target);
      // The one exception: answers in memory are sent before Express, for speed.
      if (!answerAtOnce(arrival)) app(arrival);
      arrivals.follow(arrival);
    },
    /** See `Arrivals`. */
    drain: (): void => arrivals.drain(),
    refuseAll: (problem: Problem): void => arrivals.refuseAll(problem, respond.refuse),
  };
}

/** Whether the answer may come from the cache and be stored there. All others are passed through. */
function isCacheable(question: AnyQuestion): question is Question {
  const { noStore, onlyIfCached } = question.request.directives;
  return question.query.kind !== "streamed" && (noStore !== true || onlyIfCached === true);
}

/** A response on its way through Express. */
type InExpress = Response<unknown, { readonly arrival: Arrival }>;

/** @returns a function that takes a request through Express */
function createApp(
  { addresses, headLimits, cors, documents }: CallersAppOptions,
  answer: (arrival: Arrival, found: KnownTarget) => Promise<void>,
  refuse: Respond["refuse"],
): (arrival: Arrival) => void {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.set("query parser", false);
  app.enable("case sensitive routing");
  app.enable("strict routing");

  app.use((message, { locals }: InExpress, next) => {
    checkHead(message, headLimits, locals.arrival.target);
    next();
  });
  app.use((_message, { locals }: InExpress, next) => {
    if (!cors().servePreflight(locals.arrival)) next();
  });
  for (const [path, versions] of documents) {
    const serveDocument = createServeDocument(versions);
    app
      .route(path)
      .get((message, response: InExpress) => serveDocument(response.locals.arrival, message, response))
      .all(() => {
        throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
      });
  }
  for (const { pattern, routeOf } of addresses) {
    app.route(pattern).all(async (message: Request<Record<string, string>>, { locals }: InExpress) => {
      const { arrival } = locals;
      const found = arrival.known ?? { route: routeOf(message.params, message.path), parsed: {} };
      await answer(arrival, found);
    });
  }
  app.use((message) => {
    const { near } = unknownRoute(message.path);
    throw new Problem("unknown-path", near === undefined ? {} : { detail: `Did you mean ${near}?` });
  });
  // Express recognises an error handler by its four parameters.
  app.use((error: unknown, _message: IncomingMessage, { locals }: InExpress, _next: NextFunction) => {
    refuse(locals.arrival, error);
  });
  return (arrival) => {
    const { message, response, target } = arrival;
    // Express cannot read every target in absolute form (RFC 9112, section 3.2.2), and no irregular path.
    message.url = normalisedPath(splitTarget(target).path) ?? NOWHERE;
    // A WeakMap from requests to arrivals would make V8 keep all of them until its next full collection.
    app(message, Object.assign(response, { locals: { arrival } }));
  };
}

/** Matches no route, because normalised paths have no empty segment. */
const NOWHERE = "//";
