/**
 * Plays a test of the suite: its requests go through a gateway, its responses come inside the interface's envelope.
 * The number of the upstream's response stands in the body, as the gateway does not pass on the suite's own headers.
 */
import type http from "node:http";

import { ask, type Reply } from "../support/ask.ts";
import { startGateway } from "../support/gateway.ts";
import { createSteppingClock, type SteppingClock } from "../support/stepping-clock.ts";
import { startUpstream, type Seen } from "../support/upstream.ts";
import type { Field, SuiteRequest, SuiteTest } from "./suite.ts";

/** What the suite assumes: stale answers are validated first, and any caller may ask for that. */
const SETTINGS = {
  cache: { staleWhileRevalidate: "0s", minRefreshInterval: "0s" },
  upstream: { retryDelay: "1ms" },
  apps: [{ id: "suite", mayForceRefresh: true }],
};
/** The suite's pause. */
const PAUSE_MS = 3_000;
const DATES = new Set(["date", "expires", "last-modified", "if-modified-since", "if-unmodified-since"]);

/** Tests of stale-while-revalidate itself are played with the gateway's default for it. */
const keepsStaleAnswers = (test: SuiteTest): boolean => test.id.startsWith("stale-while-revalidate");
/** The suite's own bookkeeping, in header fields that the gateway does not pass on. */
const BOOKKEEPING = new Set(["client-request-count", "server-request-count", "request-numbers"]);

/** Plays a test; returns the first thing that is not as the suite expects, `undefined` if all is. */
export async function play(test: SuiteTest): Promise<string | undefined> {
  const clock = createSteppingClock();
  const origin = createOrigin(test, clock);
  const upstream = await startUpstream((response, number) => origin.answer(response, number, upstream.seen));
  const settings = keepsStaleAnswers(test) ? { ...SETTINGS, cache: { minRefreshInterval: "0s" } } : SETTINGS;
  const gateway = await startGateway({ clock, env: upstream.env, settings: JSON.stringify(settings) });
  let previous: Reply | undefined;
  for (const [index, request] of test.requests.entries()) {
    origin.setRequest(index);
    const asked = upstream.seen.length;
    const reply = await ask(gateway.url + pathOf(test, request), {
      method: request.request_method ?? "GET",
      headers: { "x-app-id": "suite", ...headersOf(request, clock.now(), previous) },
    });
    const sent = upstream.seen.slice(asked);
    const trouble = judge(request, reply, { number: index + 1, sent, asked });
    if (trouble !== undefined) return `request ${index + 1}: ${trouble}`;
    if (request.pause_after === true) clock.pass(PAUSE_MS);
    previous = reply;
  }
  return undefined;
}

/** Letters and digits in one word could be a key; the gateway refuses these. */
function pathOf({ id }: SuiteTest, { filename = "", query_arg = "" }: SuiteRequest): string {
  return `/areas?q=${encodeURIComponent([id, filename, query_arg].join(" ").trim().replaceAll("-", " "))}`;
}

function headersOf(
  { request_headers = [], magic_ims = false }: SuiteRequest,
  now: number,
  previous: Reply | undefined,
): Record<string, string> {
  const written = request_headers.map((field): [string, string] => {
    const served = Date.parse(previous?.headers["date"] ?? "");
    return textOf(field, magic_ims && !Number.isNaN(served) ? served : now);
  });
  return Object.fromEntries(written);
}

function textOf([name, value]: Field, now: number, rfc850: readonly string[] = []): [string, string] {
  if (typeof value === "string" || !DATES.has(name.toLowerCase())) return [name, String(value)];
  const date = new Date(now + value * 1000);
  return [name, rfc850.includes(name.toLowerCase()) ? rfc850Date(date) : date.toUTCString()];
}

/** `Sunday, 06-Nov-94 08:49:37 GMT` (RFC 9110, section 5.6.7). */
function rfc850Date(date: Date): string {
  const weekday = date.toLocaleDateString("en-GB", { weekday: "long", timeZone: "UTC" });
  const [, day = "", month = "", year = "", time = ""] = date.toUTCString().split(" ");
  return `${weekday}, ${day}-${month}-${year.slice(2)} ${time} GMT`;
}

interface Origin {
  /** The client's current request. */
  readonly setRequest: (index: number) => void;
  readonly answer: (response: http.ServerResponse, number: number, seen: readonly Seen[]) => void;
}

function createOrigin(test: SuiteTest, clock: SteppingClock): Origin {
  let current = 0;
  return {
    setRequest: (index) => void (current = index),
    answer(response, number, seen) {
      const request = test.requests[current] ?? {};
      if (request.response_pause !== undefined) clock.pass(request.response_pause * 1000);
      if (request.disconnect === true) return void response.socket?.destroy();
      for (const [status, headers = []] of request.interim_responses ?? []) {
        if (status === 102) response.writeProcessing();
        else response.writeEarlyHints(Object.fromEntries(headers.map((field) => textOf(field, clock.now()))));
      }
      const status = statusOf(request, test.requests[current - 1], seen.at(-1));
      response.writeHead(status, fieldsOf(request, clock.now()));
      response.end(status === 304 || status === 204 ? undefined : bodyOf(test, number));
    },
  };
}

/** 304 if the gateway asks with the validator of the response before, 500 if it was to do so and does not. */
function statusOf(request: SuiteRequest, before: SuiteRequest | undefined, seen: Seen | undefined): number {
  if (request.expected_type?.endsWith("validated") !== true) return request.response_status?.[0] ?? 200;
  const validated = [
    ["last-modified", "if-modified-since"],
    ["etag", "if-none-match"],
  ].some(([validator, condition]) => {
    const given = before?.response_headers?.find(([name]) => name.toLowerCase() === validator)?.[1];
    const sent = seen?.headers.find(([name]) => name === condition)?.[1];
    return sent !== undefined && (typeof given === "number" || sent === given);
  });
  return validated ? 304 : 500;
}

function fieldsOf({ response_headers = [], rfc850date = [] }: SuiteRequest, now: number): string[] {
  const fields = response_headers.map((field) => textOf(field, now, rfc850date));
  const hasType = fields.some(([name]) => name.toLowerCase() === "content-type");
  return [...fields, ...(hasType ? [] : [["Content-Type", "application/json"]])].flat();
}

function bodyOf({ id }: SuiteTest, number: number): string {
  return JSON.stringify({
    totalCount: 1,
    count: 1,
    areas: [{ serviceId: 1, name: `${id} #${number}`, types: [] }],
    limit: 30,
    offset: 0,
    searchParams: {},
  });
}

interface Circumstances {
  /** The number of the client's request, from 1. */
  readonly number: number;
  /** What reached the upstream meanwhile. */
  readonly sent: readonly Seen[];
  /** How much had reached it before. */
  readonly asked: number;
}

/** What is not as expected. */
function judge(request: SuiteRequest, reply: Reply, circumstances: Circumstances): string | undefined {
  return (
    judgeStatus(request, reply) ??
    judgeSource(request, reply, circumstances) ??
    judgeSent(request, circumstances.sent.at(-1)) ??
    judgeReply(request, reply)
  );
}

function judgeStatus(request: SuiteRequest, { status }: Reply): string | undefined {
  const wanted =
    request.expected_status === undefined ? (request.response_status?.[0] ?? 200) : request.expected_status;
  return wanted === null || status === wanted ? undefined : `status ${status}, not ${wanted}`;
}

/** Where the answer comes from. The suite numbers client requests; a cached answer has a smaller number. */
function judgeSource(
  { expected_type }: SuiteRequest,
  { text }: Reply,
  { number, sent, asked }: Circumstances,
): string | undefined {
  const told = Number(/ #(\d+)"/.exec(text)?.[1] ?? (sent.length > 0 ? asked + sent.length : 0));
  if (expected_type === "cached" && told >= number) return "not from the cache";
  if (expected_type === "not_cached" && told !== number) return "from the cache";
  const validator = { lm_validated: "if-modified-since", etag_validated: "if-none-match" }[
    String(expected_type)
  ];
  if (validator === undefined) return undefined;
  const names = sent.at(-1)?.headers.map(([name]) => name) ?? [];
  return names.includes(validator) ? undefined : `no ${validator} in the request to the upstream`;
}

function judgeSent(request: SuiteRequest, seen: Seen | undefined): string | undefined {
  if (request.expected_type === "cached") return undefined;
  const sent = Object.fromEntries(seen?.headers ?? []);
  const { expected_method, expected_request_headers = [], expected_request_headers_missing = [] } = request;
  if (expected_method !== undefined && seen?.method !== expected_method) return `asked by ${seen?.method}`;
  const missing = expected_request_headers.find((field) => !has(sent, field));
  if (missing !== undefined) return `the upstream did not get ${String(missing)}`;
  const unwanted = expected_request_headers_missing.find((field) => has(sent, field));
  return unwanted === undefined ? undefined : `the upstream got ${String(unwanted)}`;
}

function judgeReply(request: SuiteRequest, { headers }: Reply): string | undefined {
  const { expected_response_headers = [], expected_response_headers_missing = [] } = request;
  const missing = expected_response_headers.find((field) => !isBookkeeping(field) && !has(headers, field));
  if (missing !== undefined) return `no ${String(missing)} in the response`;
  const unwanted = expected_response_headers_missing.find((field) => has(headers, field));
  return unwanted === undefined ? undefined : `${String(unwanted)} in the response`;
}

function isBookkeeping(field: string | readonly (string | number | boolean | undefined)[]): boolean {
  return BOOKKEEPING.has(String(typeof field === "string" ? field : field[0]).toLowerCase());
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Whether a field is there; where the suite names a value, with that value. */
function has(headers: Headers, field: string | readonly (string | number | boolean | undefined)[]): boolean {
  const [name, value, bound] = typeof field === "string" ? [field] : field;
  const found = headers[String(name).toLowerCase()];
  if (found === undefined) return false;
  if (bound !== undefined && value === ">") return Number.parseInt(String(found), 10) > Number(bound);
  if (bound !== undefined && value === "=")
    return String(found) === String(headers[String(bound).toLowerCase()]);
  return value === undefined || String(found) === String(value);
}
