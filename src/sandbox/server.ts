/**
 * The data port: receives requests, applies faults, and sends the answers.
 */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

import { acceptsGzip } from "./accept.ts";
import { answer, type Answer, explained, respelled, type Source } from "./answer.ts";
import type { ArrivalLog } from "./control/arrivals.ts";
import type { Barrier } from "./control/barrier.ts";
import { isNotModified, notModified, validatorsOf } from "./conditional.ts";
import type { Validators } from "./types.ts";
import type { Effects, FaultQueue } from "./control/faults.ts";

export interface ServerParts {
  readonly source: Source;
  readonly faults: FaultQueue;
  readonly barrier: Barrier;
  readonly arrivals: ArrivalLog;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Functions that abort the requests that are not answered in full yet. */
  readonly unanswered: Set<() => void>;
}

const compress = promisify(gzip);
const WORTH_COMPRESSING_BYTES = 200;

/** The target of redirects. It does not exist, but the list of arrivals shows a client that follows the redirect. */
const REDIRECT_TARGET = "/redirected";

const STATUS_TEXT: Readonly<Record<number, string>> = {
  429: "FAILURE_QUOTA_EXCEEDED - too many requests",
  500: "FAILURE_INTERNAL - something went wrong",
  503: "FAILURE_UNAVAILABLE - temporarily unreachable",
};

/** The proper answer, or the one that a fault demands. */
function faultyAnswer(effects: Effects, proper: () => Answer): Answer {
  const retry: Record<string, string> =
    effects.retryAfter === undefined ? {} : { "Retry-After": effects.retryAfter };
  if (effects.redirect) return explained(302, "moved", { Location: REDIRECT_TARGET, ...retry });
  if (effects.status !== undefined) {
    return explained(effects.status, STATUS_TEXT[effects.status] ?? `FAILURE - ${effects.status}`, retry);
  }
  const answered = proper();
  return {
    ...answered,
    headers: { ...answered.headers, ...retry },
    body: faultyBody(effects, effects.respell ? respelled(answered) : answered.body),
  };
}

function faultyBody(effects: Effects, body: Buffer): Buffer {
  // PHP prints this when a warning comes before the answer.
  if (effects.wrongJson)
    return Buffer.from(`<br />\n<b>Warning</b>:  out of order<br />\n${body.toString()}`);
  if (effects.wrongEnvelope) return Buffer.from('{"totalCount":1,"count":1,"result":[{"id":1}]}');
  const missing = (effects.oversizeBytes ?? 0) - body.length;
  return missing > 0 ? Buffer.concat([body, Buffer.alloc(missing, " ")]) : body;
}

/** Compresses the body if that is worth it and the caller accepts it. */
async function encoded(given: Answer, acceptEncoding: string | undefined): Promise<Answer> {
  const isText = given.headers["Content-Type"] !== "image/jpeg";
  if (!isText || given.body.length < WORTH_COMPRESSING_BYTES || !acceptsGzip(acceptEncoding)) return given;
  return {
    ...given,
    headers: { ...given.headers, "Content-Encoding": "gzip", Vary: "Accept, Accept-Encoding" },
    body: await compress(given.body),
  };
}

/** Merges headers. The second ones override the first ones; the case of names is ignored. */
function overlaid(
  headers: Readonly<Record<string, string>>,
  over: Readonly<Record<string, string>>,
): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) => !Object.hasOwn(over, name.toLowerCase()));
  return { ...Object.fromEntries(kept), ...over };
}

/** Whether a fault affects the body. If so, the body is sent even if a 304 would do. */
function needsBody(effects: Effects): boolean {
  const { wrongJson, wrongEnvelope, oversizeBytes, cutBody, hang } = effects;
  return Boolean(wrongJson || wrongEnvelope || oversizeBytes || cutBody || hang);
}

/** Adds validators and headers to a proper answer; answers 304 if the caller has it already. */
function finished(
  given: Answer,
  effects: Effects,
  validators: Validators,
  nowMs: number,
  asked: IncomingHttpHeaders,
): Answer {
  if (given.changedAt === undefined) return given;
  const isWrong = effects.wrongJson || effects.wrongEnvelope;
  const own = isWrong ? {} : validatorsOf(given, given.changedAt, validators, nowMs);
  const full = { ...given, headers: overlaid({ ...given.headers, ...own }, effects.headers ?? {}) };
  if (validators === "none" || needsBody(effects) || !isNotModified(asked, full)) return full;
  return notModified(full);
}

/** Sends the answer, or the part of it that a fault allows. */
function send(response: ServerResponse, effects: Effects, given: Answer): void {
  // A 304 has no body. Its Content-Length would be that of the 200 (RFC 9110, section 8.6), so it is omitted.
  const length = given.status === 304 ? {} : { "Content-Length": given.body.length };
  response.writeHead(given.status, { ...given.headers, ...length });
  const half = given.body.subarray(0, Math.floor(given.body.length / 2));
  if (effects.hang === "body") {
    response.write(half);
  } else if (effects.cutBody) {
    response.write(half, () => response.destroy());
  } else {
    response.end(given.body);
  }
}

/** @returns a signal that is aborted when the caller leaves, or when the sandbox aborts the request */
function whileWaitedFor(response: ServerResponse, unanswered: Set<() => void>): AbortSignal {
  const controller = new AbortController();
  const breakOff = (): void => {
    response.destroy();
  };
  unanswered.add(breakOff);
  response.once("close", () => {
    unanswered.delete(breakOff);
    controller.abort();
  });
  return controller.signal;
}

async function serve(request: IncomingMessage, response: ServerResponse, parts: ServerParts): Promise<void> {
  const answeredWith = parts.arrivals.record(request, parts.now());
  request.resume();
  const signal = whileWaitedFor(response, parts.unanswered);
  const [path = "", ...query] = (request.url ?? "").split("?");
  const effects = parts.faults.take(path);
  await parts.barrier.pass(path, signal);
  // This rejects only if the caller leaves.
  if (effects.latencyMs) await delay(effects.latencyMs, undefined, { signal }).catch(() => undefined);
  if (signal.aborted || effects.hang === "headers") return;
  if (effects.disconnect) {
    response.destroy();
    return;
  }
  const nowMs = parts.now() + (effects.clockSkewSeconds ?? 0) * 1000;
  const made = faultyAnswer(effects, () =>
    answer(
      {
        method: request.method ?? "",
        path,
        params: new URLSearchParams(query.join("?")),
        accept: request.headers.accept,
        nowSeconds: Math.floor(nowMs / 1000),
      },
      parts.source,
    ),
  );
  const whole = await encoded(made, request.headers["accept-encoding"]);
  const sent = finished(whole, effects, parts.source.validators, nowMs, request.headers);
  // The caller may have left while the body was compressed.
  if (signal.aborted) return;
  answeredWith(sent.status);
  response.setHeader("Date", new Date(nowMs).toUTCString());
  send(response, effects, sent);
}

/** A server for the interface and the thumbnails. */
export function createDataServer(parts: ServerParts): Server {
  return createServer((request, response) => {
    serve(request, response, parts).catch((error: unknown) => {
      process.stderr.write(`sandbox: ${error instanceof Error ? error.stack : String(error)}\n`);
      response.destroy();
    });
  });
}
