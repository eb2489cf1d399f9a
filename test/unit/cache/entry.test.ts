import { describe, expect, it } from "vitest";

import { entryOf, sizeOf } from "../../../src/cache/entry.ts";
import type { Query } from "../../../src/query/query.ts";
import { entryWith, fetchedWith, inFrames, receiptWith } from "../../support/entries.ts";

const RECORD: Query = { kind: "record", resource: "sold", serviceId: "7", extras: [] };
const RECEIPT = receiptWith({
  now: 1_000,
  ageMs: 200,
  lifetimeMs: 500,
  retentionMs: 9_000,
  purgeEpoch: 3,
  upstreamStale: { whileRevalidateMs: 0, ifErrorMs: 60_000 },
});
const VALIDATORS = { etag: '"1"', lastModified: "Thu, 15 Jan 2026 11:00:00 GMT" };

describe("the entry of an answer", () => {
  it("has the body, its arrival time and the end of its lifetime", () => {
    const answer = fetchedWith({ status: 404, validators: VALIDATORS });
    expect(entryOf(RECORD, answer, RECEIPT)).toEqual({
      status: 404,
      contentType: "application/json",
      validators: VALIDATORS,
      bodies: { identity: answer.body },
      bodyBytes: 2,
      etag: expect.any(String),
      tags: ["record:7"],
      purgeEpoch: 3,
      storedAt: 1_000,
      bornAt: 800,
      freshUntil: 1_500,
      keepUntil: 10_000,
      upstreamStale: { whileRevalidateMs: 0, ifErrorMs: 60_000 },
      rates: undefined,
      served: { count: 0 },
    });
  });

  it("does not keep the larger memory block of which the received body is a part", () => {
    const body = Buffer.alloc(16_384, "{}").subarray(0, 700);
    const { identity } = entryOf(RECORD, fetchedWith({ body }), RECEIPT).bodies;
    expect(identity?.equals(body)).toBe(true);
    expect(identity?.buffer.byteLength).toBe(700);
  });

  it("is fresh at most until keepUntil", () => {
    const entry = entryOf(RECORD, fetchedWith(), { ...RECEIPT, retentionMs: 100 });
    expect([entry.freshUntil, entry.keepUntil]).toEqual([1_100, 1_100]);
  });

  it.each<[string, Query, string[], string[]]>([
    ["a record", RECORD, ["7"], ["record:7"]],
    [
      "a picture",
      { kind: "image", resource: "images", serviceId: "8", width: 1, height: 1, extras: [] },
      [],
      ["record:8"],
    ],
    [
      "a search in two areas",
      {
        kind: "search",
        resource: "listings",
        filters: [
          ["areaId", "1,76"],
          ["q", "x"],
        ],
        extras: [],
        limit: 5,
        offset: 0,
      },
      ["11", "12"],
      ["record:11", "record:12", "area:1", "area:76"],
    ],
    [
      "a search for areas",
      {
        kind: "search",
        resource: "areas",
        filters: [["q", "x"]],
        extras: [],
        limit: undefined,
        offset: undefined,
      },
      ["76"],
      ["area:76"],
    ],
  ])("of %s has tags for purges", (_name, query, recordIds, tags) => {
    expect(entryOf(query, fetchedWith({ recordIds }), RECEIPT).tags).toEqual(tags);
  });

  it("has an ETag that depends only on the body", () => {
    const tag = entryOf(RECORD, fetchedWith(), RECEIPT).etag;
    expect(
      entryOf(RECORD, fetchedWith({ contentType: "text/plain", status: 404 }), { ...RECEIPT, now: 2_000 })
        .etag,
    ).toBe(tag);
    const bodies = ["", "{}", "{} ", "[]", "\u0000"].map((text) => Buffer.from(text));
    const tags = bodies.map((body) => entryOf(RECORD, fetchedWith({ body }), RECEIPT).etag);
    expect(new Set(tags).size).toBe(bodies.length);
  });

  it("has an ETag that is valid in a header", () => {
    for (let length = 0; length < 200; length++) {
      const { etag } = entryOf(RECORD, fetchedWith({ body: Buffer.alloc(length, length) }), RECEIPT);
      expect(etag).toMatch(/^[\w-]{22}$/);
    }
  });

  it("has the size of its key, its body and its encodings, and a fixed part", () => {
    const entry = entryWith("", 0, { tags: [] });
    const empty = sizeOf("", entry);
    expect(empty).toBeGreaterThan(0);
    expect(sizeOf("key", entry)).toBeGreaterThan(empty);
    expect(sizeOf("", { ...entry, tags: ["area:1"] })).toBeGreaterThan(empty);
    const sizeWith = (...bytes: number[]): number => {
      const [identity = 0, gzip = 0, br = 0, zstd = 0] = bytes;
      const bodies = { identity: Buffer.alloc(identity), gzip: Buffer.alloc(gzip) };
      return sizeOf("", { ...entry, bodies: { ...bodies, br: Buffer.alloc(br), zstd: Buffer.alloc(zstd) } });
    };
    expect(sizeWith(100, 10, 20, 30) - sizeWith()).toBe(160);
    const body = Buffer.alloc(1_000);
    const packed = inFrames(body);
    const { zstd, head, tail, framesAt } = packed;
    expect(sizeOf("", { ...entry, bodies: { packed } }) - sizeOf("", { ...entry, bodies: { zstd } })).toBe(
      head.length + tail.length + framesAt.byteLength,
    );
    // Each coding has response heads of its own.
    expect(sizeWith()).toBeGreaterThan(empty);
  });
});
