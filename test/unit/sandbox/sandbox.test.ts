/** One request for each thing that the sandbox can do. The scenario tests use most of it. */
import { gunzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { generateData } from "../../../src/sandbox/dataset/generate.ts";
import { phpJson } from "../../../src/sandbox/envelope.ts";
import type { Fault } from "../../../src/sandbox/faults.ts";
import { call, CALLER, DATA, NOW_MS, NOW_SECONDS, parsed, type Reply, signed, started } from "./support.ts";

const LISTING = DATA.listings[0]!.record;
const SOLD = DATA.sold[0]!.record;
const IMAGE = `/cache/primary_${LISTING.serviceId}_40x30.jpg`;
const V2 = "application/vnd.propertyservice-v2+json";
const JSON_ONLY = { Accept: "application/json" };

describe("the data set", () => {
  it("depends only on the seed and the sizes", () => {
    const small = { seed: 3, listings: 40, sold: 60, service: "propertyservice" };
    expect(generateData(small)).toEqual(generateData(small));
    expect(generateData({ ...small, sold: 5 }).listings).toEqual(generateData(small).listings);
    expect(generateData({ ...small, seed: 4 })).not.toEqual(generateData(small));
  });

  it("looks like the API's: ids, kinds, absent values, sizes, prices, order", () => {
    const records = [...DATA.listings, ...DATA.sold].map((row) => row.record);
    expect(new Set(records.map((record) => record.serviceId)).size).toBe(records.length);
    expect(new Set(records.map((record) => record.objectType)).size).toBe(8);
    for (const field of ["listPrice", "rent", "floor", "constructionYear", "rooms", "plotArea"] as const) {
      const share = records.filter((record) => record[field] !== undefined).length / records.length;
      expect([field, share > 0 && share < 1]).toEqual([field, true]);
    }
    const bytes = DATA.sold.reduce((sum, { record }) => sum + phpJson(record).length, 0) / DATA.sold.length;
    expect(Math.abs(bytes - 665)).toBeLessThan(65);
    const published = DATA.listings.map(({ record }) => record.published);
    expect(published).toEqual([...published].sort().toReversed());
    expect(DATA.areas.find(({ record }) => record.serviceId === 76)?.record.name).toBe("Nacka");
  });
});

it("writes lists and records as PHP does", async () => {
  const { sandbox, url } = await started({ offsetSpelling: "offSet" });
  const list = await call(url + signed("//listings/?areaId=76&limit=2&offset=1"));
  expect(Object.keys(parsed(list))).toEqual([
    "totalCount",
    "count",
    "listings",
    "limit",
    "offSet",
    "searchParams",
  ]);
  expect(parsed(list)).toMatchObject({ count: 2, limit: 2, offSet: 1, searchParams: { areaId: 76 } });
  expect(list.text).toMatch(/^[\x20-\x7e]*$/);
  expect(list.text).toContain(String.raw`https:\/\/`);
  sandbox.set({ offsetSpelling: "offset" });
  expect(parsed(await call(url + signed("/sold")))).toHaveProperty("offset", 0);
  expect(Object.keys(parsed(await call(url + signed("/areas?q=nacka"))))).not.toContain("offset");
  const record = parsed(await call(url + signed(`/sold/${SOLD.serviceId}`)));
  expect(record).toEqual({ sold: [SOLD] });
});

it.each([
  ["GET", "/listings/1", JSON_ONLY, 404],
  ["GET", "/areas/76", JSON_ONLY, 404],
  ["GET", "/houses", JSON_ONLY, 404],
  ["GET", "/listings?limit=501", JSON_ONLY, 400],
  ["POST", "/listings", JSON_ONLY, 405],
  ["GET", "/listings", {}, 406],
  ["GET", "/listings", { Accept: "text/html" }, 406],
  ["GET", "/listings", { Accept: "application/json;q=0" }, 406],
  ["GET", "/listings", { Accept: `application/json;q=0.5, ${V2}` }, 200],
  ["GET", "/listings", { Accept: "text/html, */*;q=0.1" }, 200],
  ["GET", IMAGE, {}, 200],
  ["GET", IMAGE.replace("40x30", "141x94"), {}, 400],
  ["GET", "/cache/primary_1_140x94.jpg", {}, 404],
] as const)("%s %s with %j gets %i", async (method, path, headers, status) => {
  const { url } = await started();
  const reply = await call(url + (path.startsWith("/cache/") ? path : signed(path)), { method, headers });
  expect(reply.status).toBe(status);
});

it("draws thumbnails of the requested size, one for each record", async () => {
  const { url } = await started();
  const [one, other] = [
    await call(url + IMAGE),
    await call(`${url}/cache/primary_${SOLD.serviceId}_40x30.jpg`),
  ];
  expect(one.headers["content-type"]).toBe("image/jpeg");
  const frame = one.body.indexOf(Buffer.from([0xff, 0xc0]));
  expect([one.body.readUInt16BE(frame + 7), one.body.readUInt16BE(frame + 5)]).toEqual([40, 30]);
  expect(one.body).not.toEqual(other.body);
});

it("compresses for callers that accept gzip", async () => {
  const { url } = await started();
  const reply = await call(url + signed("/listings"), {
    headers: { ...JSON_ONLY, "Accept-Encoding": "br, gzip;q=0.8" },
  });
  expect(reply.headers["content-encoding"]).toBe("gzip");
  expect(JSON.parse(gunzipSync(reply.body).toString())).toMatchObject({ count: 35 });
});

describe("conditional requests", () => {
  const OLD = "Sun, 06 Nov 1994 08:49:37 GMT";
  const LATER = new Date(NOW_MS).toUTCString();
  it.each<["none" | "etag" | "last-modified" | "both", Record<string, string>, number]>([
    ["etag", { "If-None-Match": 'W/TAG, "b"' }, 304],
    ["etag", { "If-None-Match": "*" }, 304],
    ["etag", { "If-None-Match": '"another"' }, 200],
    ["last-modified", { "If-Modified-Since": LATER }, 304],
    ["last-modified", { "If-Modified-Since": OLD }, 200],
    ["both", { "If-None-Match": '"another"', "If-Modified-Since": LATER }, 200],
    ["none", { "If-None-Match": "*" }, 200],
  ])("with validators %s and %j get %i", async (validators, conditions, status) => {
    const { sandbox, url } = await started();
    sandbox.set({ validators: "etag" });
    const { etag } = (await call(url + signed("/sold"))).headers;
    sandbox.set({ validators });
    const headers = Object.fromEntries(
      Object.entries(conditions).map(([n, v]) => [n, v.replace("TAG", etag!)]),
    );
    const reply = await call(url + signed("/sold"), { headers: { ...JSON_ONLY, ...headers } });
    expect([reply.status, reply.text === ""]).toEqual([status, status === 304]);
  });

  it("see other validators and other content after a revision of their path", async () => {
    let nowMs = NOW_MS;
    const { sandbox, url } = await started({ now: () => nowMs });
    sandbox.set({ validators: "both" });
    const before = await call(url + signed("/sold"));
    nowMs += 60_000;
    sandbox.revise({ pathPrefix: "/sold" });
    const headers = { ...JSON_ONLY, "If-None-Match": before.headers.etag };
    const after = await call(url + signed("/sold"), { headers });
    expect(after).toMatchObject({ status: 200, headers: { "last-modified": new Date(nowMs).toUTCString() } });
    expect(after.text).not.toBe(before.text);
    sandbox.reset();
    expect((await call(url + signed("/sold"))).text).toBe(before.text);
  });
});

describe("faults", () => {
  const BROKEN = "ECONNRESET";
  it.each<[string, Fault, Partial<Record<keyof Reply, unknown>> | typeof BROKEN]>([
    ["a status", { status: 503, retryAfter: "7" }, { status: 503, headers: { "retry-after": "7" } }],
    ["a cut body", { cutBody: true }, BROKEN],
    ["a broken connection", { disconnect: true }, BROKEN],
    [
      "text instead of JSON",
      { wrongJson: true },
      { text: expect.stringContaining("<b>Warning</b>") as unknown },
    ],
    ["another envelope", { wrongEnvelope: true }, { text: expect.stringContaining('"result"') as unknown }],
    [
      "a large body",
      { oversizeBytes: 500_000 },
      { body: expect.toSatisfy((b: Buffer) => b.length === 500_000) as unknown },
    ],
    ["a redirect", { redirect: true }, { status: 302, headers: { location: "/redirected" } }],
    [
      "headers",
      { headers: { "Cache-Control": "max-age=30" } },
      { headers: { "cache-control": "max-age=30" } },
    ],
    [
      "another spelling",
      { respell: true },
      { text: expect.stringMatching(/^\{\n "searchParams"/) as unknown },
    ],
  ])("%s, for as many requests as asked", async (_name, fault, expected) => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ ...fault, times: 1 });
    const reply = call(url + signed("/sold"));
    if (expected === BROKEN) await expect(reply).rejects.toMatchObject({ code: BROKEN });
    else expect(await reply).toMatchObject(expected);
    expect((await call(url + signed("/sold"))).status).toBe(200);
  });

  it.each(["headers", "body"] as const)(
    "a hang before the end of the %s ends with the caller",
    async (hang) => {
      const { sandbox, url } = await started();
      sandbox.faults.add({ hang });
      const leaving = new AbortController();
      const reply = expect(call(url + signed("/sold"), { signal: leaving.signal })).rejects.toThrow();
      await sandbox.waitForRequests(1);
      leaving.abort();
      await reply;
    },
  );

  it("combine if they keep the meaning, else follow each other, and count for their path only", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add(
      { headers: { age: "1" }, pathPrefix: "/sold" },
      { status: 503, times: 1, pathPrefix: "/sold" },
      { wrongEnvelope: true, times: 1 },
    );
    expect((await call(url + signed("/sold"))).status).toBe(503);
    expect(await call(url + signed("/sold"))).toMatchObject({ status: 200, headers: { age: "1" } });
    expect((await call(url + signed("/listings"))).headers).not.toHaveProperty("age");
  });

  it("skew the clock, in the Date and in the check of the time", async () => {
    const { sandbox, url } = await started();
    sandbox.faults.add({ clockSkewSeconds: 400 });
    expect((await call(url + signed("/areas"))).status).toBe(403);
    expect((await call(url + signed("/areas", { time: String(NOW_SECONDS + 400) }))).status).toBe(200);
  });
});

describe("arrivals", () => {
  it.each([
    ["/listings?q=a+b&key=mistake&limit=1", "/listings", "q=a+b&limit=1"],
    ["/listings/1&hash=secret&limit=2", "/listings/1", "limit=2"],
    ["/listings?limit=2?h%61sh=secret", "/listings", "limit=2"],
  ])("list %s without credentials", async (address, path, query) => {
    const { sandbox, url } = await started();
    await call(url + address, { headers: { "User-Agent": "test/1" } });
    expect(sandbox.requests()).toMatchObject([
      { at: NOW_MS, path, query, userAgent: "test/1", conditional: false },
    ]);
    expect(sandbox.counts()).toMatchObject({ total: 1, byResource: { listings: 1 } });
    sandbox.clearRequests();
    expect(sandbox.counts().total).toBe(0);
  });

  it("wait at the barrier until they are released or their caller leaves", async () => {
    const { sandbox, url } = await started();
    sandbox.hold("/sold");
    expect((await call(url + signed("/listings"))).status).toBe(200);
    const leaving = new AbortController();
    const left = expect(call(url + signed("/sold/1"), { signal: leaving.signal })).rejects.toThrow();
    await sandbox.waitForRequests(2);
    leaving.abort();
    await left;
    await expect.poll(() => sandbox.waiting()).toBe(0);
    const held = call(url + signed("/sold"));
    await sandbox.waitForRequests(3);
    sandbox.release();
    expect((await held).status).toBe(200);
  });
});

describe("the control port", () => {
  it("does over HTTP what a test does with the object, and never shows the key", async () => {
    const { sandbox, url } = await started();
    const { url: control } = await sandbox.listenControl();
    const post = async (path: string, body: unknown = {}): Promise<number> =>
      (await call(control + path, { method: "POST", body: JSON.stringify(body) })).status;
    expect(await post("/faults", { status: 503, times: 1 })).toBe(200);
    expect((await call(url + signed("/sold"))).status).toBe(503);
    for (const [path, body] of [
      ["/settings", { validators: "etag", offsetSpelling: "offSet" }],
      ["/revise", { pathPrefix: "/sold" }],
      ["/hold", {}],
    ] as const)
      expect(await post(path, body)).toBe(200);
    const state = await call(control);
    expect(parsed(state)).toEqual(sandbox.state());
    expect(sandbox.state()).toMatchObject({ validators: "etag", offsetSpelling: "offSet", holding: true });
    expect(state.text).not.toContain(CALLER.privateKey);
    expect(parsed(await call(`${control}/requests?atLeast=1`))["requests"]).toEqual(sandbox.requests());
    expect(await post("/release", { count: 1 })).toBe(200);
    expect(await post("/auth", { privateKey: "turned" })).toBe(200);
    expect(await post("/reset")).toBe(200);
    expect(sandbox.state()).toMatchObject({ validators: "none", holding: false, arrivals: { total: 0 } });
  });

  it.each<[string, string, unknown, number, string]>([
    ["POST", "/faults", { status: 1 }, 400, "✖ Too small: expected number to be >=200"],
    ["POST", "/faults", [{ times: 1 }, { nonsense: 1 }], 400, '✖ Unrecognized key: "nonsense"'],
    ["POST", "/settings", { validators: "weak" }, 400, "✖ Invalid option"],
    ["POST", "/auth", "text", 400, "✖ Invalid input: expected object"],
    ["POST", "/release", { count: -1 }, 400, "✖ Too small"],
    ["DELETE", "/auth", undefined, 405, "/auth accepts POST"],
    ["GET", "/nowhere", undefined, 404, "no such call"],
  ])("%s %s %j gets %i with a reason", async (method, path, body, status, text) => {
    const { sandbox } = await started();
    const { url } = await sandbox.listenControl();
    const reply = await call(url + path, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    expect([reply.status, String(parsed(reply)["error"]).slice(0, text.length)]).toEqual([status, text]);
  });
});
