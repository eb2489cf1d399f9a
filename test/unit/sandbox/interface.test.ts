import { gunzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { DATA, call, parsed, signed, started } from "./support.ts";

const LISTING = DATA.listings[0]!.record;
const SOLD = DATA.sold[0]!.record;
const V2 = "application/vnd.propertyservice-v2+json";

describe("a list", () => {
  it("has the envelope, in PHP's notation", async () => {
    const { url } = await started();
    const reply = await call(url + signed("/listings?areaId=76&limit=2&offset=1"));
    expect(reply.status).toBe(200);
    expect(reply.headers["content-type"]).toBe("application/json");
    expect(reply.headers["content-length"]).toBe(String(reply.body.length));
    const body = parsed(reply);
    expect(Object.keys(body)).toEqual(["totalCount", "count", "listings", "limit", "offset", "searchParams"]);
    expect(body).toMatchObject({ count: 2, limit: 2, offset: 1, searchParams: { areaId: 76 } });
    expect(body["listings"]).toHaveLength(2);
    expect(reply.text).toMatch(/^[\x20-\x7e]*$/);
    expect(reply.text).toContain(String.raw`https:\/\/`);
    expect(reply.text).not.toContain("null");
    expect(reply.text).not.toContain("pageviews");
  });

  it("spells the offset as configured", async () => {
    const { sandbox, url } = await started({ offsetSpelling: "offSet" });
    expect(parsed(await call(url + signed("/sold")))).toHaveProperty("offSet", 0);
    sandbox.set({ offsetSpelling: "offset" });
    expect(parsed(await call(url + signed("/sold")))).toHaveProperty("offset", 0);
  });

  it("of areas has no offset", async () => {
    const { url } = await started();
    const body = parsed(await call(url + signed("/areas?q=nacka&listings=1&offset=5")));
    expect(Object.keys(body)).toEqual(["totalCount", "count", "areas", "limit", "searchParams"]);
  });

  it("is found at sloppy URLs too", async () => {
    const { url } = await started();
    expect((await call(url + signed("//listings/?&limit=1"))).status).toBe(200);
  });
});

describe("a single record", () => {
  it.each([
    ["listings", LISTING],
    ["sold", SOLD],
  ] as const)("of %s is the only element", async (resource, record) => {
    const { url } = await started();
    const body = parsed(await call(url + signed(`/${resource}/${record.serviceId}`)));
    expect(body).toEqual({ [resource]: [expect.objectContaining(record)] });
    const pageviews = resource === "listings" ? [expect.any(Number)] : [undefined];
    expect([body[resource]].flat().map((shown) => Reflect.get(Object(shown), "pageviews"))).toEqual(
      pageviews,
    );
  });

  it.each([
    "/listings/1",
    `/sold/${LISTING.serviceId}`,
    "/listings/abc",
    `/listings/${LISTING.serviceId}/photos`,
    "/areas/76",
    "/houses",
    "/",
  ])("is not at %s", async (path) => {
    const { url } = await started();
    expect((await call(url + signed(path))).status).toBe(404);
  });
});

describe("the format", () => {
  it.each([
    ["application/json", 200, "application/json"],
    ["Application/JSON; charset=utf-8", 200, "application/json"],
    [V2, 200, V2],
    ["*/*", 200, "application/json"],
    ["application/*", 200, "application/json"],
    [`application/json;q=0.5, ${V2}`, 200, V2],
    ["text/html, */*;q=0.1", 200, "application/json"],
    ["text/html", 406, undefined],
    ["application/json;q=0", 406, undefined],
    ["application/vnd.propertyservice-v3+json", 406, undefined],
    [undefined, 406, undefined],
  ])("requested as %s: %i", async (accept, status, type) => {
    const { url } = await started();
    const headers = accept === undefined ? {} : { Accept: accept };
    const reply = await call(url + signed("/listings?limit=1"), { headers });
    expect(reply.status).toBe(status);
    if (type) expect(reply.headers["content-type"]).toBe(type);
    else expect(reply.text).toMatch(/^FAILURE_NOT_ACCEPTABLE - /);
  });

  it("is compressed for callers that accept gzip", async () => {
    const { url } = await started();
    const headers = { Accept: "*/*", "Accept-Encoding": "br;q=1, gzip;q=0.8" };
    const reply = await call(url + signed("/listings"), { headers });
    expect(reply.headers["content-encoding"]).toBe("gzip");
    expect(JSON.parse(gunzipSync(reply.body).toString())).toMatchObject({ count: 35 });
  });

  it("is not compressed for callers that refuse gzip", async () => {
    const { url } = await started();
    const headers = { Accept: "*/*", "Accept-Encoding": "gzip;q=0" };
    expect((await call(url + signed("/listings"), { headers })).headers["content-encoding"]).toBeUndefined();
  });
});

describe("mistakes", () => {
  it("in a value give 400 with a short explanation", async () => {
    const { url } = await started();
    const reply = await call(url + signed("/listings?limit=501"));
    expect(reply.status).toBe(400);
    expect(reply.text).toBe("FAILURE_INVALID_PARAM - limit must be at most 500");
  });

  it.each(["POST", "PUT", "DELETE", "HEAD"])("in the method, %s, give 405", async (method) => {
    const { url } = await started();
    const reply = await call(url + signed("/listings"), { method });
    expect(reply.status).toBe(405);
    expect(reply.headers.allow).toBe("GET");
  });
});

describe("a thumbnail", () => {
  it.each([
    [LISTING.serviceId, 140, 94],
    [SOLD.serviceId, 1, 1],
    [LISTING.serviceId, 33, 17],
  ])("of %i at %ix%i is a JPEG, without a signature", async (id, width, height) => {
    const { url } = await started();
    const reply = await call(`${url}/cache/primary_${id}_${width}x${height}.jpg`, { headers: {} });
    expect(reply.status).toBe(200);
    expect(reply.headers["content-type"]).toBe("image/jpeg");
    const frame = reply.body.indexOf(Buffer.from([0xff, 0xc0]));
    expect([reply.body.readUInt16BE(frame + 7), reply.body.readUInt16BE(frame + 5)]).toEqual([width, height]);
  });

  it.each([
    [`/cache/primary_${LISTING.serviceId}_141x94.jpg`, 400],
    [`/cache/primary_${LISTING.serviceId}_140x95.jpg`, 400],
    [`/cache/primary_${LISTING.serviceId}_0x94.jpg`, 400],
    ["/cache/primary_1_140x94.jpg", 404],
    ["/cache/primary_x_140x94.jpg", 404],
    ["/cache/other.jpg", 404],
    ["/cache", 404],
  ])("is not at %s: %i", async (path, status) => {
    const { url } = await started();
    expect((await call(url + path)).status).toBe(status);
  });

  it("is served on every address it listens on", async () => {
    const { sandbox } = await started();
    const images = await sandbox.listen();
    const reply = await call(`${images.url}/cache/primary_${LISTING.serviceId}_10x10.jpg`);
    expect(reply.status).toBe(200);
  });
});
