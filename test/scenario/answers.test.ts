import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { askDirectly } from "../support/direct.ts";
import { startGateway } from "../support/gateway.ts";
import { cacheStatus, problemCode } from "../support/reply.ts";
import { createSteppingClock } from "../support/stepping-clock.ts";

const PATH = "/listings?areaId=76&limit=20";

describe("an answer", () => {
  it.each([
    ["/listings?areaId=76&limit=20", "/listings?areaId=76&limit=20&offset=0"],
    ["/listings?objectType=villa,l%C3%A4genhet&minRooms=2&offset=35", undefined],
    ["/sold?minSoldPrice=2000000&limit=5&offset=0&undefined=", undefined],
    ["/areas?q=Nacka", undefined],
    ["/areas?lat=59.31&lng=18.16&limit=3", undefined],
    ["/listings", "/listings?offset=0"],
  ])("to %s is the upstream's body, byte for byte", async (target, sent = target) => {
    const gateway = await startGateway();
    const answer = await gateway.get(target);
    expect(answer.status).toBe(200);
    expect(answer.text).toBe((await askDirectly(gateway.sandboxUrl, sent)).text);
    expect(answer.headers["content-type"]).toBe("application/json");
  });

  it("with a single record is the upstream's body", async () => {
    const gateway = await startGateway();
    const id = [...gateway.sandbox.data.listingById.keys()][0];
    const [answer, direct] = await Promise.all([
      gateway.get(`/listings/${id}`),
      askDirectly(gateway.sandboxUrl, `/listings/${id}`),
    ]);
    expect(answer.text).toBe(direct.text);
    expect(answer.headers["cache-control"]).toMatch(/^max-age=(600|599)$/);
  });

  it("with a thumbnail is the picture for any accepted image type, requested unsigned", async () => {
    const gateway = await startGateway();
    const id = [...gateway.sandbox.data.listingById.keys()][0];
    const target = `/cache/primary_${id}_140x94.jpg`;
    const answer = await gateway.get(target, { headers: { accept: "image/avif,image/webp,image/*;q=0.8" } });
    expect(answer.headers["content-type"]).toBe("image/jpeg");
    expect(answer.body.subarray(0, 2)).toEqual(Buffer.from([0xff, 0xd8]));
    expect(gateway.sandbox.requests().map(({ path, query }) => `${path}?${query}`)).toEqual([`${target}?`]);
  });

  it("is fetched once, then served from memory with the rest of its lifetime", async () => {
    const gateway = await startGateway();
    const first = await gateway.get(PATH);
    expect(cacheStatus(first)).toMatchObject({
      fwd: "miss",
      "fwd-status": "200",
      stored: true,
      key: "listings?areaId=76&limit=20&offset=0",
    });
    const second = await gateway.get(PATH);
    expect(cacheStatus(second)).toMatchObject({ hit: true });
    for (const { headers } of [first, second]) {
      expect(headers.age).toBe("0");
      expect(headers["cache-control"]).toMatch(/^max-age=(300|29\d)$/);
      expect(headers.etag).toMatch(/^"[\w-]{22}"$/);
      expect(headers.vary).toBe("Accept, Accept-Encoding");
    }
    expect(second.text).toBe(first.text);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it("is served stale once while it is refreshed, and is then new", async () => {
    let now = Date.now();
    const clock = { now: () => now, monotonic: () => now, precise: () => now, after: () => () => undefined };
    const gateway = await startGateway({
      clock,
      env: { CACHE_TTL: "listings=5m" },
      sandbox: { now: () => now },
    });
    await gateway.get(PATH);
    now += 299_000;
    const old = await gateway.get(PATH);
    expect(cacheStatus(old)).toMatchObject({ hit: true, ttl: "1" });
    expect(old.headers).toMatchObject({ age: "299", "cache-control": "max-age=1" });
    now += 1_000;
    const updating = await gateway.get(PATH);
    expect(cacheStatus(updating)).toMatchObject({ hit: true, ttl: "0", detail: "stale-while-revalidate" });
    expect(updating.headers).toMatchObject({ age: "300", "cache-control": "max-age=0" });
    // Looked at from aside: whoever asks before it is there is given the old one too.
    const entry = `${gateway.adminUrl}/cache/entry?url=${encodeURIComponent(PATH)}`;
    await expect.poll(async () => (await ask(entry)).json()).toMatchObject({ why: "fresh" });
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ hit: true, ttl: "300" });
    expect(gateway.sandbox.requests()).toHaveLength(2);
    const series = 'gateway_requests_total{app="other",resource="listings",outcome="updating",status="200"}';
    await expect.poll(() => gateway.metric(series)).toBe(1);
    const calls = 'gateway_upstream_requests_total{resource="listings",cause="refresh",status="200"}';
    expect(await gateway.metric(calls)).toBe(1);
  });

  it("is fetched before it is served if the cached one expired long ago", async () => {
    const clock = createSteppingClock();
    const gateway = await startGateway({ clock, sandbox: { now: clock.now } });
    await gateway.get(PATH);
    clock.pass(359_999);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ hit: true, ttl: "-60" });
    await expect.poll(async () => cacheStatus(await gateway.get(PATH))).toMatchObject({ ttl: "300" });
    clock.pass(360_000);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ fwd: "stale", stored: true, ttl: "300" });
    expect(gateway.sandbox.requests()).toHaveLength(3);
  });

  it("to HEAD is the answer to GET without the body, and is cached", async () => {
    const gateway = await startGateway();
    const head = await gateway.get(PATH, { method: "HEAD" });
    const get = await gateway.get(PATH);
    expect(head.body).toHaveLength(0);
    expect(head.headers["content-length"]).toBe(String(get.body.length));
    expect(head.headers.etag).toBe(get.headers.etag);
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });

  it.each([
    ["gzip", "gzip", gunzipSync],
    ["br", "br", brotliDecompressSync],
    ["zstd", "gzip, br, zstd", zstdDecompressSync],
    ["gzip", "gzip, br;q=0.5, zstd;q=0", gunzipSync],
    [undefined, "identity", (body: Buffer) => body],
    [undefined, "compress", (body: Buffer) => body],
  ])("is encoded as %s for a caller that accepts %s, with its own ETag", async (coding, accepts, decode) => {
    const gateway = await startGateway();
    const plain = await gateway.get(PATH);
    const answers = [
      await gateway.get(PATH, { headers: { "accept-encoding": accepts } }),
      await gateway.get(PATH, { headers: { "accept-encoding": accepts } }),
    ];
    for (const answer of answers) {
      expect(answer.headers["content-encoding"]).toBe(coding);
      expect(decode(answer.body).equals(plain.body)).toBe(true);
      expect(answer.headers.etag === plain.headers.etag).toBe(coding === undefined);
    }
    expect(answers[0]?.body).toEqual(answers[1]?.body);
  });

  it("is 304 for a caller that has it", async () => {
    const gateway = await startGateway();
    const { headers } = await gateway.get(PATH, { headers: { "accept-encoding": "br" } });
    for (const tag of [headers.etag, `W/${headers.etag}`, `"other", ${headers.etag}`, "*"]) {
      const again = await gateway.get(PATH, { headers: { "if-none-match": tag, "accept-encoding": "br" } });
      expect(again.status).toBe(304);
      expect(again.body).toHaveLength(0);
      expect(again.headers).toMatchObject({ etag: headers.etag, age: "0" });
      expect(cacheStatus(again)).toMatchObject({ hit: true });
    }
    expect((await gateway.get(PATH, { headers: { "if-none-match": '"other"' } })).status).toBe(200);
  });

  it("with 404 is cached for a minute with the upstream's explanation", async () => {
    const gateway = await startGateway();
    const first = await gateway.get("/sold/999999999");
    expect([first.status, problemCode(first)]).toEqual([404, "not-found"]);
    expect(first.json()).toMatchObject({ detail: expect.stringContaining("FAILURE_NOT_FOUND") });
    const second = await gateway.get("/sold/999999999");
    expect(second.headers["cache-control"]).toMatch(/^max-age=(60|59)$/);
    expect(cacheStatus(second)).toMatchObject({ hit: true });
    expect(gateway.sandbox.requests()).toHaveLength(1);
  });
});

describe("the format", () => {
  it.each([
    [undefined, "application/json"],
    ["*/*", "application/json"],
    ["application/*", "application/json"],
    ["application/json; charset=utf-8", "application/json"],
    ["text/html, application/json;q=0.5", "application/json"],
    ["application/vnd.propertyservice-v2+json", "application/vnd.propertyservice-v2+json"],
    [
      "application/json;q=0.1, application/vnd.propertyservice-v2+json",
      "application/vnd.propertyservice-v2+json",
    ],
    ["application/json, application/vnd.propertyservice-v2+json;q=0.9", "application/json"],
  ])("accepted as %s is requested as %s", async (accept, sent) => {
    const gateway = await startGateway();
    const answer = await gateway.get(PATH, { headers: accept === undefined ? {} : { accept } });
    expect(answer.status).toBe(200);
    expect(gateway.sandbox.requests()[0]?.accept).toBe(sent);
    expect(answer.headers["content-type"]).toBe(sent);
  });

  it("of a version has its own cached answer", async () => {
    const gateway = await startGateway();
    await gateway.get(PATH);
    const frozen = await gateway.get(PATH, {
      headers: { accept: "application/vnd.propertyservice-v2+json" },
    });
    expect(cacheStatus(frozen)).toMatchObject({ fwd: "miss" });
    expect(gateway.sandbox.requests()).toHaveLength(2);
  });
});

describe("an upstream request", () => {
  it("identifies the company, and has nothing of the caller", async () => {
    const gateway = await startGateway();
    await gateway.get(PATH, {
      headers: {
        cookie: "session=1",
        authorization: "Bearer x",
        "x-forwarded-for": "10.0.0.1",
        "user-agent": "internal-app/1",
        referer: "https://intranet.example/",
        "x-app-id": "app",
        "accept-language": "sv",
        te: "trailers",
      },
    });
    const [arrival] = gateway.sandbox.requests();
    expect(arrival).toMatchObject({
      userAgent: "property-gateway-test/1.0 (ops@example.com)",
      referer: "https://www.example.com/",
      referrer: "https://www.example.com/",
    });
    expect(arrival?.headerNames.toSorted()).toEqual(
      ["accept", "accept-encoding", "connection", "host", "referer", "referrer", "user-agent"].toSorted(),
    );
  });

  it("has nothing of an old client's signature", async () => {
    const gateway = await startGateway();
    const signed = `${PATH}&callerId=old&time=1&unique=0123456789abcdef&hash=${"a".repeat(40)}&Hash=${"b".repeat(40)}`;
    expect((await gateway.get(signed)).status).toBe(200);
    expect(cacheStatus(await gateway.get(PATH))).toMatchObject({ hit: true });
    expect(gateway.log.join("")).not.toMatch(/aaaa|bbbb|0123456789abcdef/);
  });

  it("is answered without the upstream's hop-by-hop headers", async () => {
    const gateway = await startGateway();
    const { headers } = await gateway.get(PATH);
    const expected = [
      "x-request-id",
      "cache-status",
      "age",
      "cache-control",
      "etag",
      "vary",
      "content-type",
      "content-length",
      "link",
      "ratelimit-policy",
      "ratelimit",
    ];
    expect(
      Object.keys(headers)
        .filter((name) => !["date", "connection", "keep-alive"].includes(name))
        .toSorted(),
    ).toEqual(expected.toSorted());
  });
});
