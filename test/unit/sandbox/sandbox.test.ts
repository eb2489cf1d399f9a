/** What the sandbox promises beyond what the scenario tests use. search.test.ts has the searches. */
import { describe, expect, it } from "vitest";

import { createAuthenticator } from "../../../src/sandbox/auth.ts";
import { generateData } from "../../../src/sandbox/dataset/generate.ts";
import { phpJson } from "../../../src/sandbox/envelope.ts";
import { call, CALLER, credentials, DATA, NOW_MS, NOW_SECONDS } from "./support.ts";
import { newUnique, parsed, signed, started } from "./support.ts";

const LISTING = DATA.listings[0]!.record;
const SOLD = DATA.sold[0]!.record;
const IMAGE = `/cache/primary_${LISTING.serviceId}_40x30.jpg`;
const V2 = "application/vnd.propertyservice-v2+json";
const JSON_ONLY = { Accept: "application/json" };

it("the data set depends only on the seed and the sizes, and looks like the API's", () => {
  const small = { seed: 3, listings: 40, sold: 60, service: "propertyservice" };
  expect(generateData(small)).toEqual(generateData(small));
  expect(generateData({ ...small, sold: 5 }).listings).toEqual(generateData(small).listings);
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

it("lists and records are written as PHP does", async () => {
  const { sandbox, url } = await started({ offsetSpelling: "offSet" });
  const list = await call(url + signed("//listings/?areaId=76&limit=2&offset=1"));
  expect(Object.keys(parsed(list)).join()).toBe("totalCount,count,listings,limit,offSet,searchParams");
  expect(parsed(list)).toMatchObject({ count: 2, limit: 2, offSet: 1, searchParams: { areaId: 76 } });
  expect(list.text).toMatch(/^[\x20-\x7e]*$/);
  expect(list.text).toContain(String.raw`https:\/\/`);
  sandbox.set({ offsetSpelling: "offset" });
  expect(parsed(await call(url + signed("/sold")))).toHaveProperty("offset", 0);
  expect(Object.keys(parsed(await call(url + signed("/areas?q=nacka"))))).not.toContain("offset");
  expect(parsed(await call(url + signed(`/sold/${SOLD.serviceId}`)))).toEqual({ sold: [SOLD] });
});

it.each([
  ["GET", "/listings/1", JSON_ONLY, 404],
  ["GET", "/houses", JSON_ONLY, 404],
  ["GET", "/listings?limit=501", JSON_ONLY, 400],
  ["POST", "/listings", JSON_ONLY, 405],
  ["GET", "/listings", {}, 406],
  ["GET", "/listings", { Accept: "application/json;q=0" }, 406],
  ["GET", "/listings", { Accept: `application/json;q=0.5, ${V2}` }, 200],
  ["GET", "/listings", { Accept: "text/html, */*;q=0.1" }, 200],
  ["GET", IMAGE.replace("40x30", "141x94"), {}, 400],
  ["GET", "/cache/primary_1_140x94.jpg", {}, 404],
] as const)("%s %s with %j gets %i", async (method, path, headers, status) => {
  const { url } = await started();
  const reply = await call(url + (path.startsWith("/cache/") ? path : signed(path)), { method, headers });
  expect(reply.status).toBe(status);
});

describe("the signature", () => {
  it.each<[Record<string, string>, string]>([
    [{}, "accepted"],
    [{ time: String(NOW_SECONDS - 300) }, "accepted"],
    [{ time: String(NOW_SECONDS + 300) }, "accepted"],
    [{ unique: "a b+c/d=e&f?g.å1" }, "accepted"],
    ...["callerId", "time", "unique", "hash"].map((name): [Record<string, string>, string] => [
      { [name]: "" },
      `FAILURE_MISSING_PARAM - ${name}`,
    ]),
    [{ callerId: "Tester" }, "FAILURE_UNKNOWN_CALLER"],
    [{ time: String(NOW_SECONDS - 301) }, "FAILURE_INVALID_TIME"],
    [{ time: String(NOW_SECONDS * 1000) }, "FAILURE_INVALID_TIME"],
    [{ time: `${NOW_SECONDS}.5` }, "FAILURE_INVALID_TIME"],
    [{ unique: "abcdefghijklmno" }, "FAILURE_INVALID_UNIQUE"],
    [{ unique: "abcdefghijklmnopq" }, "FAILURE_INVALID_UNIQUE"],
    [{ hash: "0".repeat(40) }, "FAILURE_INVALID_HASH"],
  ])("of %j: %s", (change, expected) => {
    const said = createAuthenticator(CALLER).refusal(new URLSearchParams(credentials(change)), NOW_SECONDS);
    expect(said ?? "accepted").toContain(expected);
  });

  it("counts once, and only a genuine request uses up its unique", () => {
    const authenticator = createAuthenticator(CALLER);
    const unique = newUnique();
    const ask = (change: Partial<Record<string, string>>): string | undefined =>
      authenticator.refusal(new URLSearchParams(credentials({ unique, ...change })), NOW_SECONDS);
    expect(ask({ hash: "f".repeat(40) })).toContain("FAILURE_INVALID_HASH");
    expect(ask({})).toBeUndefined();
    expect(ask({})).toContain("FAILURE_UNIQUE_USED");
  });

  it("is refused as plain text under the JSON type", async () => {
    const { url } = await started();
    const reply = await call(`${url}/listings`);
    expect([reply.status, reply.headers["content-type"]]).toEqual([403, "application/json"]);
    expect(reply.text).toBe("FAILURE_MISSING_PARAM - callerId is missing");
  });
});

describe("conditional requests", () => {
  const OLD = "Sun, 06 Nov 1994 08:49:37 GMT";
  const LATER = new Date(NOW_MS).toUTCString();
  it.each<["none" | "etag" | "last-modified" | "both", Record<string, string>, number]>([
    ["etag", { "If-None-Match": 'W/TAG, "b"' }, 304],
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
  });
});

it("faults combine if they keep the meaning, else follow each other, and count for their path only", async () => {
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

it.each([
  ["/listings?q=a+b&key=mistake&limit=1", "/listings", "q=a+b&limit=1"],
  ["/listings/1&hash=secret&limit=2", "/listings/1", "limit=2"],
  ["/listings?limit=2?h%61sh=secret", "/listings", "limit=2"],
])("arrivals list %s without credentials", async (address, path, query) => {
  const { sandbox, url } = await started();
  await call(url + address, { headers: { "User-Agent": "test/1" } });
  const arrival = { at: NOW_MS, path, query, userAgent: "test/1", conditional: false };
  expect(sandbox.requests()).toMatchObject([arrival]);
  expect(sandbox.counts()).toMatchObject({ total: 1, byResource: { listings: 1 } });
});

describe("the control port", () => {
  it("does over HTTP what a test does with the object, and never shows the key", async () => {
    const { sandbox, url } = await started();
    const { url: control } = await sandbox.listenControl();
    const post = async (path: string, body: unknown = {}): Promise<number> =>
      (await call(control + path, { method: "POST", body: JSON.stringify(body) })).status;
    expect(await post("/faults", { status: 503, times: 1 })).toBe(200);
    expect((await call(url + signed("/sold"))).status).toBe(503);
    expect(await post("/auth", { privateKey: "turned" })).toBe(200);
    expect((await call(url + signed("/sold"))).status).toBe(403);
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
    expect(await post("/reset")).toBe(200);
    expect(sandbox.state()).toMatchObject({ validators: "none", holding: false, arrivals: { total: 0 } });
  });

  it.each<[string, string, unknown, number, string]>([
    ["POST", "/faults", [{ times: 1 }, { nonsense: 1 }], 400, '✖ Unrecognized key: "nonsense"'],
    ["POST", "/hold", "text", 400, "✖ Invalid input: expected object"],
    ["DELETE", "/hold", undefined, 405, "/hold accepts POST"],
    ["GET", "/nowhere", undefined, 404, "no such call"],
  ])("%s %s %j gets %i with a reason", async (method, path, body, status, text) => {
    const { sandbox } = await started();
    const { url } = await sandbox.listenControl();
    const sent = body !== undefined && { body: JSON.stringify(body) };
    const reply = await call(url + path, { method, ...sent });
    expect([reply.status, String(parsed(reply)["error"]).slice(0, text.length)]).toEqual([status, text]);
  });
});
