/**
 * The callers' port, as an Express app: its addresses, and the journey of a request through the stages. The stages are passed
 * in, and no stage imports another one.
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

import express, { type Express, type NextFunction, type Request, type Response } from "express";

import { Problem } from "../errors.ts";
import { type KnownTarget, type KnownTargets, NOT_PARSED } from "../query/known-targets.ts";
import type { Query, StreamedQuery } from "../query/query.ts";
import { type Address, normalisedPath, unknownRoute } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
import type { Answer } from "../cache/cache.ts";
import type { Question } from "../query/question.ts";
import type { StreamSink } from "../upstream/pass-through.ts";
import type { Admit } from "./admit.ts";
import type { Arrival, Arrivals } from "./arrive.ts";
import type { ServePreflight } from "./cors.ts";
import type { ServeDocument } from "./document.ts";
import type { Refuse, Respond } from "./respond.ts";
import type { Understand } from "./understand.ts";

export interface Stages {
  /** The addresses that lead to the upstream. */
  readonly addresses: readonly Address[];
  readonly arrivals: Arrivals;
  /** @throws {Problem} if the request line or the headers break HTTP or a limit */
  readonly checkHead: (message: IncomingMessage, target: string) => void;
  readonly servePreflight: ServePreflight;
  /** The documents by path. */
  readonly documents: ReadonlyMap<string, ServeDocument>;
  /** Finds a target that was parsed before. */
  readonly known: KnownTargets["find"];
  readonly admit: Admit;
  readonly understand: Understand;
  /** Looks only into memory. Returns the answer synchronously. */
  readonly answerAtOnce: (question: Question) => Answer | undefined;
  /** Looks up and stores. On a miss: one flight per question [ one permit, signature and fetch per attempt ]. */
  readonly cache: (question: Question) => Promise<Answer>;
  readonly passThrough: (question: AnyQuestion, message: IncomingMessage, sink: StreamSink) => Promise<void>;
  readonly respond: Respond;
  readonly refuse: Refuse;
}

type AnyQuestion = Question<Query | StreamedQuery>;

/** A request on its journey. */
interface Exchange {
  readonly arrival: Arrival;
  /** The target as the caller wrote it. */
  readonly target: string;
  readonly known: KnownTarget | undefined;
  /** The answer, if it is in memory. */
  cached?: Answer | undefined;
}

/** @returns a function that serves one request */
export function createCallersApp(
  stages: Stages,
): (message: IncomingMessage, response: ServerResponse) => void {
  const { arrivals, known } = stages;
  const exchanges = new WeakMap<IncomingMessage, Exchange>();
  const app = createApp(stages, (message) => {
    const exchange = exchanges.get(message);
    if (exchange === undefined) throw new Error("a request without an exchange");
    return exchange;
  });

  return (message, response) => {
    const { url: target = "/" } = message;
    const arrival = arrivals.arrive(message, response);
    const exchange: Exchange = { arrival, target, known: known(target) };
    // The one exception: answers in memory are sent before Express, for speed.
    if (!answerAtOnce(stages, exchange, message, response)) {
      exchanges.set(message, exchange);
      // Express cannot read every target in absolute form (RFC 9112, section 3.2.2), and no irregular path.
      message.url = normalisedPath(splitTarget(target).path) ?? NOWHERE;
      app(message, response);
    }
    arrivals.follow(arrival, message, response);
  };
}

function createApp(stages: Stages, exchangeOf: (message: IncomingMessage) => Exchange): Express {
  const { addresses, checkHead, servePreflight, documents, refuse } = stages;
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.set("query parser", false);
  app.enable("case sensitive routing");
  app.enable("strict routing");

  app.use((message, _response, next) => {
    checkHead(message, exchangeOf(message).target);
    next();
  });
  app.use((message, response, next) => {
    if (!servePreflight(exchangeOf(message).arrival, message, response)) next();
  });
  for (const [path, serveDocument] of documents) {
    app
      .route(path)
      .get((message, response) => serveDocument(exchangeOf(message).arrival, message, response))
      .all(() => {
        throw new Problem("method-not-allowed", { headers: { Allow: "GET, HEAD" } });
      });
  }
  for (const { pattern, routeOf } of addresses) {
    app.route(pattern).all(async (message: Request<Record<string, string>>, response: Response) => {
      const exchange = exchangeOf(message);
      const { search } = splitTarget(exchange.target);
      const found = { route: routeOf(message.params, message.path), search, parsed: NOT_PARSED };
      await answer(stages, exchange, exchange.known ?? found, message, response);
    });
  }
  app.use((message) => {
    const { near } = unknownRoute(message.path);
    throw new Problem("unknown-path", near === undefined ? {} : { detail: `Did you mean ${near}?` });
  });
  // Express recognises an error handler by its four parameters.
  app.use((error: unknown, message: IncomingMessage, response: ServerResponse, _next: NextFunction) => {
    refuse(exchangeOf(message).arrival, error, response);
  });
  return app;
}

/** Matches no route, because normalised paths have no empty segment. */
const NOWHERE = "//";

/** Finds what a request asks for. */
function ask(
  { admit, understand }: Stages,
  { arrival, target }: Exchange,
  found: KnownTarget,
  message: IncomingMessage,
): AnyQuestion {
  const question = understand(admit(arrival, message, target, found));
  arrival.record.query = question.canonicalQuery;
  return question;
}

async function answer(
  stages: Stages,
  exchange: Exchange,
  found: KnownTarget,
  message: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { arrival } = exchange;
  const { respond } = stages;
  const question = ask(stages, exchange, found, message);
  if (!isCacheable(question)) {
    return await stages.passThrough(question, message, respond.stream(arrival, question, response));
  }
  const cached = exchange.cached ?? stages.answerAtOnce(question);
  if (cached !== undefined && respond.answerAtOnce(arrival, question, cached, response)) return;
  await respond.answer(arrival, question, cached ?? (await stages.cache(question)), response);
}

/** Sends the answer to a known target if it is in memory. Express comes to the same errors, and refuses the request. */
function answerAtOnce(
  stages: Stages,
  exchange: Exchange,
  message: IncomingMessage,
  response: ServerResponse,
): boolean {
  const { arrival, target, known } = exchange;
  const { method } = message;
  if (known === undefined || (method !== "GET" && method !== "HEAD")) return false;
  try {
    stages.checkHead(message, target);
    const question = ask(stages, exchange, known, message);
    if (!isCacheable(question)) return false;
    const cached = stages.answerAtOnce(question);
    exchange.cached = cached;
    return cached !== undefined && stages.respond.answerAtOnce(arrival, question, cached, response);
  } catch {
    return false;
  }
}

/** Whether the answer may come from the cache and be stored there. All others are passed through. */
function isCacheable(question: AnyQuestion): question is Question {
  const { noStore, onlyIfCached } = question.request.directives;
  return question.query.kind !== "streamed" && (!noStore || onlyIfCached);
}
