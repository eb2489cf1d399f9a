/** Mixed traffic over all gateways. Every answer is checked. */
import http from "node:http";

import { ask, type Reply } from "../support/ask.ts";
import { CALLER } from "../support/gateway.ts";
import { createRandom, type TestRandom } from "../support/random.ts";
import { createWorkload } from "../support/workload.ts";
import type { Member } from "./member.ts";
import { DATA, type Truth } from "./truth.ts";

/** A request as an app writes it, and the target that means the same to the upstream. */
interface SoakRequest {
  readonly app: string;
  readonly target: string;
  readonly canonical: string;
}

/** `budget.maxWait` is 10 s; a busy machine gets five seconds more. */
const HUNG_MS = 15_000;
/** Ages are whole seconds, and so is the upstream's `Date`. */
const AGE_SLACK_MS = 2_000;
const AGED_S = 5;
const EXAMPLES = 20;
const CHUNK = 2_000;
const SEARCHES = 60;
const AREAS = 20;
/** Errors that a caller may get while something fails or the budget is spent. */
const REFUSALS = new Set([429, 502, 503, 504]);

/** Requests in chunks. All chunks have the same popular searches. */
function* requestsOf(seed: number, random: TestRandom): Generator<SoakRequest, never> {
  const areaIds = DATA.areas.map(({ record }) => record.serviceId).slice(0, AREAS);
  const listings = [...DATA.listingById.keys()].slice(0, 40);
  const sold = [...DATA.soldById.keys()].slice(0, 40);
  const workload = createWorkload({ seed, requests: CHUNK, searches: SEARCHES, areaIds });
  const plain = (target: string): SoakRequest => ({
    app: `app-${random.between(0, 11)}`,
    target,
    canonical: target,
  });
  const others = [
    () => plain(`/listings/${random.pick(listings)}`),
    () => plain(`/sold/${random.pick(sold)}`),
    () => plain(`/areas?q=${random.pick(["stock", "malm", "a", "berg", "nowhere"])}&limit=20`),
    () => plain(`/cache/primary_${random.pick(listings)}_140x94.jpg`),
    () => plain(`/listings/${random.between(1, 9)}`),
  ];
  for (;;) {
    for (const { app, target, resource, filters, limit, offset } of random.shuffled(workload)) {
      const params = { ...filters, limit: String(limit), offset: String(offset) };
      const canonical = `/${resource}?${new URLSearchParams(params).toString()}`;
      yield random.chance(0.7) ? { app, target, canonical } : random.pick(others)();
    }
  }
}

/** Sends so many requests a second, whether or not earlier ones have been answered. */
export function startTraffic(members: readonly Member[], truth: Truth, seed: number, perSecond: number) {
  const random = createRandom(seed);
  const requests = requestsOf(seed, random);
  const agent = new http.Agent({ keepAlive: true, timeout: 30_000 });
  /** By status; 0 stands for no answer. */
  const statuses: Record<string, number> = {};
  /** The first failures, described. */
  const examples: string[] = [];
  /** What happened to the requests. */
  const counts = {
    requests: 0,
    /** Answers with a body that was compared. */
    compared: 0,
    /** Of these, answers that were older than five seconds. */
    aged: 0,
    wrong: 0,
    hung: 0,
    /** Connections that broke while their replica was killed or frozen. */
    lost: 0,
    /** The longest a caller waited, without the time for which its replica was killed or frozen. */
    longestWaitMs: 0,
    statuses,
    examples,
  };
  const etags = new Map<string, { readonly etag: string; readonly body: Buffer }>();
  const inFlight = new Set<Promise<void>>();

  /**
   * @param known the body that the caller has already, if it asked with `If-None-Match`
   * @returns why an answer is wrong
   */
  function faultIn(
    reply: Reply,
    canonical: string,
    known: Buffer | undefined,
    sentAt: number,
    endedAt: number,
  ): string | undefined {
    const { status, headers, text } = reply;
    if (text.includes(CALLER.privateKey)) return "it contains the private key";
    const body = status === 304 ? known : reply.body;
    if (status === 200 || status === 304) {
      if (body === undefined) return "a 304 that nobody asked for";
      const age = Number(headers.age ?? 0);
      counts.compared += 1;
      if (age > AGED_S) counts.aged += 1;
      // The age was computed after the request was sent.
      const from = sentAt - age * 1_000 - AGE_SLACK_MS;
      return truth.isSent(canonical, body, from, endedAt) ? undefined : "the upstream sent nothing like it";
    }
    if (headers["content-type"] !== "application/problem+json") return "an error that is no problem+json";
    if (REFUSALS.has(status) || status === truth.statusOf(canonical)) return undefined;
    return "an unexpected status";
  }

  async function send(member: Member, { app, target, canonical }: SoakRequest): Promise<void> {
    const known = random.chance(0.2) ? etags.get(target) : undefined;
    const sentAt = Date.now();
    const headers = { "x-app-id": app, ...(known && { "if-none-match": known.etag }) };
    const asking = ask(member.url() + target, { agent, headers, signal: AbortSignal.timeout(60_000) });
    const reply = await asking.catch((error: unknown) => new Error(String(error)));
    const endedAt = Date.now();
    const awayMs = member.awayMs(sentAt, endedAt);
    const waitedMs = endedAt - sentAt - (awayMs ?? 0);
    const status = reply instanceof Error ? 0 : reply.status;
    counts.requests += 1;
    statuses[status] = (statuses[status] ?? 0) + 1;
    counts.longestWaitMs = Math.max(counts.longestWaitMs, waitedMs);
    const fail = (kind: "wrong" | "hung", why: string): void => {
      counts[kind] += 1;
      const { headers: head, text } = reply instanceof Error ? { headers: {}, text: reply.message } : reply;
      const said = `${status} ${JSON.stringify(head)} ${JSON.stringify(text.slice(0, 200))}`;
      if (examples.length < EXAMPLES)
        examples.push(`${new Date(sentAt).toISOString()} ${kind}: ${why}: ${member.name} ${target}: ${said}`);
    };
    if (waitedMs > HUNG_MS) fail("hung", `${Math.round(waitedMs)} ms`);
    else if (!(reply instanceof Error)) {
      const why = faultIn(reply, canonical, known?.body, sentAt, endedAt);
      if (why !== undefined) fail("wrong", why);
    } else if (awayMs !== undefined) counts.lost += 1;
    else fail("wrong", "the connection broke, and its replica was neither killed nor frozen");
    if (reply instanceof Error || reply.status !== 200) return;
    const etag = reply.headers.etag;
    if (etag !== undefined) etags.set(target, { etag, body: reply.body });
  }
  const timer = setInterval(() => {
    const listed = members.filter((member) => member.isListed());
    if (listed.length === 0) return;
    const request = requests.next().value;
    const sending: Promise<void> = send(random.pick(listed), request).finally(() => inFlight.delete(sending));
    inFlight.add(sending);
  }, 1_000 / perSecond);
  return {
    counts,
    /** Resolves when the last answer has come. */
    async stop(): Promise<void> {
      clearInterval(timer);
      await Promise.all(inFlight);
      agent.destroy();
    },
  };
}
