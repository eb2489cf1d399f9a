/** Plays a mixed workload against a gateway that cuts pages from blocks, and checks every answer. */
import http from "node:http";
import { expect, onTestFinished } from "vitest";

import { generateData } from "../../src/sandbox/dataset/generate.ts";
import type { SandboxData } from "../../src/sandbox/dataset/model.ts";
import { listBody } from "../../src/sandbox/envelope.ts";
import { search } from "../../src/sandbox/search.ts";
import { CALLER, startGateway, type TestGateway } from "./gateway.ts";
import { createWorkload, type WorkloadRequest } from "./workload.ts";

const BLOCK = 500;

/** Nothing but the first request for something asks the upstream, and a busy machine is no reason to give up. */
const SETTINGS = `
cache: { ttl: { listings: 24h, sold: 24h }, maxBytes: 1GiB }
upstream: { connectTimeout: 60s, headerTimeout: 60s, bodyTimeout: 60s, totalTimeout: 3m }
`;

export interface WorkloadPlan {
  readonly requests: number;
  readonly searches: number;
  /** In how many areas they are. */
  readonly areas?: number;
  readonly sizes: { readonly listings: number; readonly sold: number };
  readonly seed: number;
}

export interface WorkloadResult {
  /** Upstream calls that were made. */
  readonly calls: number;
  /** Those that nothing could have saved: for blocks with records, searches without any, and pages over a boundary. */
  readonly unavoidable: number;
  /** Those of them that checked a cut page. */
  readonly checks: number;
  /** Different pages that were asked for: the calls of a cache that keeps each by itself. */
  readonly pages: number;
}

export async function playWorkload({
  requests,
  searches,
  areas = 60,
  sizes,
  seed,
}: WorkloadPlan): Promise<WorkloadResult> {
  const data = generateData({ seed: 1, ...sizes, service: CALLER.service });
  const gateway = await startGateway({
    settings: SETTINGS,
    env: { LOG_LEVEL: "warn", LOG_ACCESS: "off" },
    sandbox: { data },
  });
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const areaIds = data.areas.map(({ record }) => record.serviceId).slice(0, areas);
  const workload = createWorkload({ seed, requests, searches, areaIds });
  const foundBy = createFindAll(data);
  const play = async (requests: readonly WorkloadRequest[]): Promise<void> => {
    for (const request of requests) {
      const { status, text } = await get(gateway.url + request.target, agent, request.app);
      // Not `toBe`, which would print hundreds of kilobytes.
      if (status !== 200 || text !== upstreamSends(request, foundBy))
        expect.unreachable(`${request.target} was answered with ${status} ${text.slice(0, 300)}`);
    }
  };
  await play(workload);
  return {
    calls: gateway.sandbox.counts().total,
    unavoidable: unavoidable(workload, foundBy),
    checks: await checksOf(gateway),
    pages: new Set(
      workload.map(({ resource, filters, limit, offset }) =>
        JSON.stringify([resource, filters, limit, offset]),
      ),
    ).size,
  };
}

/** The checks so far. Each of them found that the page was right, with one call. */
async function checksOf({ metric }: TestGateway): Promise<number> {
  const of = (result: string): Promise<number[]> =>
    Promise.all(
      ["listings", "sold"].map((resource) =>
        metric(`gateway_pages_checked_total{resource="${resource}",result="${result}"}`),
      ),
    );
  expect([await of("differed"), await of("unknown")]).toEqual([
    [0, 0],
    [0, 0],
  ]);
  return (await of("agreed")).reduce((sum, count) => sum + count, 0);
}

type SearchResult = ReturnType<typeof search>;
type FindAll = (request: WorkloadRequest) => SearchResult;

/** All that the sandbox finds for a search, remembered: many requests are for the same one. */
function createFindAll(data: SandboxData): FindAll {
  const known = new Map<string, SearchResult>();
  return ({ resource, filters }) => {
    const key = JSON.stringify([resource, filters]);
    const found = known.get(key) ?? findAll(data, resource, filters);
    known.set(key, found);
    return found;
  };
}

function findAll(
  data: SandboxData,
  resource: WorkloadRequest["resource"],
  filters: WorkloadRequest["filters"],
): SearchResult {
  const first = search(data, resource, { ...filters, limit: "500", offset: "0" });
  const records = [...first.records];
  while (records.length < first.totalCount)
    records.push(
      ...search(data, resource, { ...filters, limit: "500", offset: String(records.length) }).records,
    );
  return { ...first, records };
}

function upstreamSends(request: WorkloadRequest, foundBy: FindAll): string {
  const { resource, limit, offset } = request;
  const found = foundBy(request);
  const records = found.records.slice(offset, offset + limit);
  return listBody(resource, { ...found, records, limit, offset }, "offset");
}

function unavoidable(workload: readonly WorkloadRequest[], foundBy: FindAll): number {
  const calls = new Set<string>();
  for (const request of workload) {
    const { resource, filters, limit, offset } = request;
    const total = foundBy(request).totalCount;
    const end = Math.min(offset + limit, total);
    const block = Math.floor(offset / BLOCK) * BLOCK;
    const what = total === 0 ? "empty" : end > block + BLOCK ? `page ${offset} ${limit}` : `block ${block}`;
    if (total === 0 || offset < total) calls.add(JSON.stringify([resource, filters, what]));
  }
  return calls.size;
}

function get(url: string, agent: http.Agent, app: string): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  http
    .get(url, { agent, headers: { "x-app-id": app } }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") }),
      );
    })
    .on("error", reject);
  return promise;
}
