/**
 * Callers and the upstream choose the texts that the gateway scans. No text of the largest size that the limits let in may
 * take long. Add each new expression or scanner for such texts to the table.
 *
 * The bound is CPU time of this thread, compared with a baseline of the same moment.
 */
import { Socket } from "node:net";

import { expect, it } from "vitest";

import { elementsOf, httpDateMs, secondsIn } from "../../src/http-fields.ts";
import { bearerToken } from "../../src/http/token.ts";
import {
  deadlineOf,
  directivesOf,
  negotiateCoding,
  negotiateFormat,
} from "../../src/http/request-headers.ts";
import { noneMatchNames } from "../../src/http/response-headers.ts";
import { withEncodedUrl } from "../../src/http/edge/unencoded-urls.ts";
import { checkHead } from "../../src/http/edge/request-validation.ts";
import { readEnvelope } from "../../src/interface/envelope.ts";
import { createClientAddress, traceparentIn } from "../../src/telemetry/access-log.ts";
import { cachingHeadersIn, validatorsIn } from "../../src/upstream/caching-headers.ts";
import { explanationIn } from "../../src/upstream/explanation.ts";
import { retryAfterMs } from "../../src/upstream/verdict.ts";
import { parsedTarget } from "../support/understood.ts";

const URL_CHARACTERS = 8192;
const HEADER_CHARACTERS = 16 * 1024;
const BODY_CHARACTERS = 64 * 1024;
const MOST_MS = 20;
/** How much longer than the baseline a scan may take. The baseline takes about 1 ms on an idle machine. */
const MOST_BASELINES = 40;

const CONFIDENTIAL = ["api.example.test", "acme", "0123456789abcdef0123456789abcdef01234567"];

type Scan = (text: string) => unknown;

const HEAD_LIMITS = { maxUrlBytes: 65_536, maxHeaderBytes: 65_536, maxHeaders: 100 };
const headWith = (host: string, url: string): Parameters<typeof checkHead>[0] => ({
  url,
  headers: { host },
  httpVersion: "1.1",
  rawHeaders: ["Host", host],
});
const refusedByParser = (text: string): Error =>
  Object.assign(new Error(), { code: "HPE_INVALID_URL", rawPacket: Buffer.from(text) });
const PROXY = Object.defineProperty(new Socket(), "remoteAddress", { value: "10.0.0.1" });
const clientAddress = createClientAddress(["loopback", "10.0.0.0/8", "fe80::/10"]);

const headers: readonly (readonly [name: string, scan: Scan])[] = [
  ["Cache-Control of a caller", (text) => directivesOf({ "cache-control": text })],
  ["Prefer", (text) => deadlineOf({ prefer: text }, 1000)],
  ["X-Request-Deadline-Ms", (text) => refused(() => deadlineOf({ "x-request-deadline-ms": text }, 1000))],
  ["Accept", (text) => negotiateFormat(text, false, "acme")],
  ["Accept-Encoding", (text) => negotiateCoding(text)],
  ["If-None-Match", (text) => noneMatchNames(text, "a")],
  ["Host", (text) => refused(() => checkHead(headWith(text, "/"), HEAD_LIMITS))],
  ["the host in a URL", (text) => refused(() => checkHead(headWith("x", `http://${text}/`), HEAD_LIMITS))],
  ["a raw URL", (text) => withEncodedUrl(refusedByParser(`GET /å${text} HTTP/1.1\r\n\r\n`))],
  ["headers of a raw URL", (text) => withEncodedUrl(refusedByParser(`GET /å HTTP/1.1\r\n${text}\r\n\r\n`))],
  ["Authorization of an app", (text) => bearerToken(`Bearer ${text}`)],
  ["X-Forwarded-For", (text) => clientAddress({ headers: { "x-forwarded-for": text }, socket: PROXY })],
  ["traceparent", (text) => traceparentIn({ traceparent: text })],
  ["a list", (text) => elementsOf(text)],
  ["a date", (text) => httpDateMs(text, 0)],
  ["seconds", (text) => secondsIn(text)],
  ["Retry-After", (text) => retryAfterMs({ "retry-after": text, date: text }, 0)],
  [
    "Cache-Control, Age, Expires and Vary of the upstream",
    (text) => cachingHeadersIn({ "cache-control": text, age: text, expires: text, vary: text }, 0, 0),
  ],
  ["the upstream's validators", (text) => validatorsIn({ etag: text, "last-modified": text }, 0)],
];

/** The parts of a URL: where the text stands in it. */
const targets: readonly string[] = [
  "/",
  "/listings/",
  "/listings?",
  "/areas?q=",
  "/areas?foo=",
  "/listings?areaId=",
  "/listings?objectType=",
  "/listings?minPublished=",
  "/cache/primary_",
];

const scans: readonly (readonly [name: string, size: number, scan: Scan])[] = [
  ...headers.map(([name, scan]) => [name, HEADER_CHARACTERS, scan] as const),
  ...targets.map((start) => {
    const scan: Scan = (text) => parsedTarget((start + text).slice(0, URL_CHARACTERS), { unknown: "reject" });
    return [start, URL_CHARACTERS, scan] as const;
  }),
  ["an upstream's explanation", BODY_CHARACTERS, (text) => explanationIn(Buffer.from(text), CONFIDENTIAL)],
  ["ids in a body", BODY_CHARACTERS, (text) => readEnvelope({ sold: [{ serviceId: text }] }, "sold", text)],
];

function refused(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}

/** Pieces that the expressions treat differently. */
const PIECES = '0|1|a|ä|-|.|%|%41|&|&a=|minrooms=1&|/| |,|;|:|"|\\|<|q='.split("|");

/** Two pieces in turn, and a long run of one before a run of another. */
function* hostileTexts(size: number): Generator<string> {
  for (const one of PIECES) {
    for (const other of PIECES) {
      const half = size / 2;
      yield one.repeat(half / one.length) + other.repeat(half / other.length);
      if (one <= other) yield (one + other).repeat(size / (one.length + other.length));
    }
  }
}

/** The CPU time of this thread in milliseconds. */
function cpuMs(run: () => unknown): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

const TEXT = "linear ".repeat(20_000);

/** A compilation, a collection or a busy machine may slow down one attempt, but not each of five and its baseline. */
function isQuick(run: () => unknown): boolean {
  return [1, 2, 3, 4, 5].some(() => {
    const took = cpuMs(run);
    return took <= MOST_MS || took <= MOST_BASELINES * cpuMs(() => TEXT.replaceAll("n", "m"));
  });
}

it.each(scans)("no text takes long to scan: %s", (_name, size, scan) => {
  for (const text of hostileTexts(size))
    if (!isQuick(() => scan(text))) expect.unreachable(`${text.slice(0, 40)} … ${text.slice(-40)}`);
});
