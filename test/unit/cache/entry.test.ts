import { describe, expect, it } from "vitest";

import { entryOf, sizeOf } from "../../../src/cache/entry.ts";
import type { Fetched } from "../../../src/exchange.ts";
import type { Query } from "../../../src/query/query.ts";
import { entryWith } from "../../support/entries.ts";

function fetched(change: Partial<Fetched> = {}): Fetched {
  return {
    status: 200,
    contentType: "application/json",
    body: Buffer.from("{}"),
    lastModified: undefined,
    recordIds: [],
    ...change,
  };
}

const RECORD: Query = { kind: "record", resource: "sold", serviceId: "7", extras: [] };
const TIMES = { now: 1_000, lifetimeMs: 500, retentionMs: 9_000, purgeEpoch: 3 };

describe("the entry of an answer", () => {
  it("has what came, when it came and until when it is fresh", () => {
    const answer = fetched({ status: 404, lastModified: "Thu, 15 Jan 2026 11:00:00 GMT" });
    expect(entryOf(RECORD, answer, TIMES)).toEqual({
      status: 404,
      contentType: "application/json",
      lastModified: "Thu, 15 Jan 2026 11:00:00 GMT",
      bodies: { identity: answer.body },
      bodyBytes: 2,
      etag: expect.any(String),
      tags: ["record:7"],
      purgeEpoch: 3,
      storedAt: 1_000,
      freshUntil: 1_500,
      keepUntil: 10_000,
    });
  });

  it("is kept at least as long as it is fresh", () => {
    expect(entryOf(RECORD, fetched(), { ...TIMES, retentionMs: 1 }).keepUntil).toBe(1_500);
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
  ])("of %s can be found by what it is about", (_name, query, recordIds, tags) => {
    expect(entryOf(query, fetched({ recordIds }), TIMES).tags).toEqual(tags);
  });

  it("has a tag that depends on the body, and on nothing else", () => {
    const tag = entryOf(RECORD, fetched(), TIMES).etag;
    expect(
      entryOf(RECORD, fetched({ contentType: "text/plain", status: 404 }), { ...TIMES, now: 2_000 }).etag,
    ).toBe(tag);
    const bodies = ["", "{}", "{} ", "[]", "\u0000"].map((text) => Buffer.from(text));
    const tags = bodies.map((body) => entryOf(RECORD, fetched({ body }), TIMES).etag);
    expect(new Set(tags).size).toBe(bodies.length);
  });

  it("has a tag that can stand in a header as it is", () => {
    for (let length = 0; length < 200; length++) {
      const { etag } = entryOf(RECORD, fetched({ body: Buffer.alloc(length, length) }), TIMES);
      expect(etag).toMatch(/^[\w-]{22}$/);
    }
  });

  it("weighs its key, its body and each of its codings, and something for itself", () => {
    const entry = entryWith("", 0, { tags: [] });
    const empty = sizeOf("", entry);
    expect(empty).toBeGreaterThan(0);
    expect(sizeOf("key", entry)).toBeGreaterThan(empty);
    expect(sizeOf("", { ...entry, tags: ["area:1"] })).toBeGreaterThan(empty);
    const bodies = {
      identity: Buffer.alloc(100),
      gzip: Buffer.alloc(10),
      br: Buffer.alloc(20),
      zstd: Buffer.alloc(30),
    };
    expect(sizeOf("", { ...entry, bodies })).toBe(empty + 160);
  });
});
