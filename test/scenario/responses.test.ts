/** Each kind of response: responses.txt, and the rules that all of them follow. */
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";

import { expect, describe, it } from "vitest";

import { cacheStatus, OF_THE_ANSWER, OF_THE_CONNECTION, problemCode, type Reply } from "../support/ask.ts";
import { EXACT_PAGES, LISTING_ID, startGateway, type TestGateway } from "../support/gateway.ts";
import { createExpectDocumented } from "../support/openapi.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";
import { sectionsOf, unescaped } from "../support/table.ts";

const PATH = "/listings?areaId=76&limit=20";
const [ANSWERS, REFUSALS] = sectionsOf(new URL("responses.txt", import.meta.url));

const inFull = (text: string): string =>
  unescaped(text)
    .replace(/^A\b/, PATH)
    .replace(/\bK\b/, 'key="listings?areaId=76&limit=20&offset=0"')
    .replaceAll(/(?<![A-Za-z])ID(?=_70x|\b)/g, LISTING_ID);

/** The clock does not move, so the remaining lifetime is the whole one. */
function start(clock = createSteppingClock()): Promise<TestGateway> {
  return startGateway({ settings: "upstream: { retryDelay: 1ms }", clock, env: EXACT_PAGES });
}

/** `PUT /sold [accept: x/y]`, by GET unless it says another method. */
function send(gateway: TestGateway, written: string, method = "GET"): Promise<Reply> {
  const [, given = method, target = "", rest = ""] =
    /^(?:([A-Z]+) (?=\/))?(\S+)(.*)$/.exec(inFull(written)) ?? [];
  const headers = [...rest.matchAll(/\[([\w-]+): ([^\]]*)\]/g)].map(([, name, value]) => [name, value]);
  return gateway.get(target, {
    method: given,
    headers: { "x-request-id": "asked-for", ...Object.fromEntries(headers) },
  });
}

function headOf({ headers }: Reply): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.includes(name)));
}

/** @returns `200 application/json`, after checking what holds for every response */
function kindOf(reply: Reply): string {
  const { status, headers } = reply;
  expect(headers).toMatchObject({ age: "0", "x-request-id": "asked-for" });
  expect(cacheStatus(reply)).toBeDefined();
  const isStream = headers["cache-control"] === "no-store" && status === 200;
  // Nothing can be computed of a body that is not held.
  expect(headers.etag ?? "").toMatch(isStream ? /^$/ : /^"[\w-]{22}"$/);
  if (headers["cache-control"] !== "no-store") expect(headers.vary).toBe("Accept, Accept-Encoding");
  expect(Object.keys(headOf(reply)).filter((name) => !OF_THE_ANSWER.includes(name))).toEqual([]);
  if (status === 405) expect(headers.allow).toBe("GET, HEAD");
  const what = status >= 400 ? problemCode(reply) : headers["content-type"];
  // Requests for a resource have the app's share in their headers.
  const isRefusedEarly = ["unknown-path", "expectation-failed", "uri-too-long"].includes(what ?? "");
  expect([what, "ratelimit" in headers]).toEqual([what, !isRefusedEarly]);
  return what === undefined ? String(status) : `${status} ${what}`;
}

/** Holds a response against what the gateway's OpenAPI document says of the request. */
async function expectDocumented(gateway: TestGateway, written: string, reply: Reply): Promise<void> {
  const document = Object((await gateway.get("/openapi.json")).json());
  const [, target = ""] = /(\/[^?\s]*)/.exec(inFull(written)) ?? [];
  const path = target
    .replace(/\/$/, "")
    .replace(/primary_[^_]+_\d+x\d+/, "primary_{serviceId}_{width}x{height}")
    .replace(/^(\/(?:listings|sold)\/)[^/]+$/, "$1{serviceId}");
  createExpectDocumented(document)(reply, path in document.paths ? path : undefined);
}

function expectSameHead(get: Reply, head: Reply): void {
  expect(head.status).toBe(get.status);
  expect(headOf(head)).toEqual(headOf(get));
  expect(head.body).toHaveLength(0);
  if (get.status !== 304) expect(get.body).toHaveLength(Number(get.headers["content-length"]));
}

/** `…` stands for any text. */
function matching(written: string): unknown {
  const pattern = written.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`).replaceAll("…", ".*");
  return expect.stringMatching(new RegExp(`^${pattern}$`));
}

describe(ANSWERS?.title ?? "", () => {
  it.each(ANSWERS?.rows ?? [])("%s", async (given, wanted) => {
    const clock = createSteppingClock();
    const steps = given.split("; ");
    const responseBy = async (method: string): Promise<Reply> => {
      const gateway = await start(clock);
      for (const step of steps.slice(0, -1)) {
        if (step.startsWith("fault ")) gateway.sandbox.faults.add(JSON.parse(step.slice("fault ".length)));
        else if (step === "another key") gateway.sandbox.setCaller({ privateKey: "another" });
        else await send(gateway, step);
      }
      return await send(gateway, steps.at(-1) ?? "", method);
    };
    const [get, head] = [await responseBy("GET"), await responseBy("HEAD")];
    await expectDocumented(await start(), steps.at(-1) ?? "", get);
    const { "cache-status": status, "cache-control": control } = get.headers;
    expect([kindOf(get), status, control]).toEqual(
      wanted.split(" | ").map((part, at) => (at === 1 ? `property-gateway; ${inFull(part)}` : part)),
    );
    expectSameHead(get, head);
  });
});

/** The detail of a problem, or the mistakes in a query: `limit "501" a whole number, a hint; …`. */
function detailOf(reply: Reply): string {
  const { detail, errors }: { detail?: string; errors?: Record<string, string>[] } = Object(reply.json());
  const mistakes = errors?.map(({ parameter, value, expected, hint }) => {
    const said = `${parameter} ${JSON.stringify(value)} ${expected}`;
    return hint === undefined ? said : `${said}, ${hint}`;
  });
  return mistakes?.join("; ") ?? detail ?? "";
}

it(REFUSALS?.title ?? "", async () => {
  const gateway = await start();
  for (const [given, wanted] of REFUSALS?.rows ?? []) {
    const reply = await send(gateway, given);
    const [kind, detail = "…"] = wanted.split(" | ");
    expect([given, kindOf(reply), detailOf(reply)]).toEqual([given, kind, matching(detail)]);
    expect([given, cacheStatus(reply)]).toEqual([given, { detail: problemCode(reply) }]);
    expect([given, reply.headers["cache-control"]]).toEqual([given, "no-store"]);
    await expectDocumented(gateway, given, reply);
    if (given.startsWith("/")) expectSameHead(reply, await send(gateway, given, "HEAD"));
  }
  expect(gateway.sandbox.requests()).toEqual([]);
  const refused = 'gateway_requests_total{app="other",resource="sold",outcome="refused",status="405"}';
  expect(await gateway.metric(refused)).toBeGreaterThan(1);
});

it("harmless differences are not refused", async () => {
  const gateway = await start();
  const paths = [
    "/listings?minRooms=2&minRooms=2.0",
    "/listings?limit=0",
    "/listings?limit=&offset=NaN&areaId=undefined&dim=1,2",
    "/sold?objectType=VILLA,L%C3%84GENHET",
    "/areas?lat=-0&lng=0",
    // As long as it may be.
    "/areas?q={x*8183}",
  ];
  for (const path of paths) expect([path, (await send(gateway, path)).status]).toEqual([path, 200]);
});

it("304 has the headers of the answer without those about the body", async () => {
  const clock = createSteppingClock();
  const gateway = await start(clock);
  await gateway.get(PATH);
  const headers = { "accept-encoding": "br" };
  const whole = await gateway.get(PATH, { headers });
  for (const method of ["GET", "HEAD"]) {
    const unchanged = await gateway.get(PATH, {
      method,
      headers: { ...headers, "if-none-match": whole.headers.etag, "x-request-id": "again" },
    });
    expect([unchanged.status, unchanged.body.length]).toEqual([304, 0]);
    const { "content-type": _type, "content-encoding": _coding, ...rest } = headOf(whole);
    const { "content-length": _length, ...expected } = rest;
    expect(headOf(unchanged)).toEqual({ ...expected, "x-request-id": "again" });
  }
});

describe("a content encoding", () => {
  const DECODERS = { gzip: gunzipSync, br: brotliDecompressSync, zstd: zstdDecompressSync };

  it("is computed once and cached with the answer", async () => {
    const gateway = await startGateway({ env: EXACT_PAGES });
    const bytesHeld = (): Promise<number> => gateway.metric('gateway_cache_bytes{tier="memory"}');
    const plain = await gateway.get(PATH);
    const before = await bytesHeld();
    const codings = Object.keys(DECODERS);
    const atOnce = await Promise.all(
      [...codings, ...codings, ...codings].map((coding) =>
        gateway.get(PATH, { headers: { "accept-encoding": coding } }),
      ),
    );
    const sizes = new Map(atOnce.map((reply) => [reply.headers["content-encoding"], reply.body.length]));
    const headsBytes = 1_024;
    const made = [...sizes.values()].reduce((sum, size) => sum + size + headsBytes, 0);
    expect(sizes.size).toBe(3);
    expect(await bytesHeld()).toBe(before + made);
    for (const [coding, decode] of Object.entries(DECODERS)) {
      const reply = await gateway.get(PATH, { headers: { "accept-encoding": coding } });
      expect(cacheStatus(reply)).toMatchObject({ hit: true });
      expect(decode(reply.body).equals(plain.body)).toBe(true);
      expect(reply.body.length).toBeLessThan(plain.body.length / 2);
    }
    expect(await bytesHeld()).toBe(before + made);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("and a whole page of a search fetched by itself have the same ETag as one cut from a block", async () => {
    const [cut, exact] = [await startGateway(), await startGateway({ env: EXACT_PAGES })];
    expect((await cut.get(`${PATH}&offset=40`)).headers.etag).toBe(
      (await exact.get(`${PATH}&offset=40`)).headers.etag,
    );
  });

  it("is not used for a small answer, a thumbnail or a problem", async () => {
    const gateway = await startGateway();
    for (const path of [
      "/areas?q=Nacka&limit=1",
      `/cache/primary_${LISTING_ID}_70x47.jpg`,
      "/listings?limit=501",
    ]) {
      const reply = await gateway.get(path, { headers: { "accept-encoding": "zstd, br, gzip" } });
      expect([path, reply.headers["content-encoding"]]).toEqual([path, undefined]);
      expect(reply.body).toHaveLength(Number(reply.headers["content-length"]));
    }
  });
});
