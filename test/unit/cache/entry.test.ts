import { describe, expect, it } from "vitest";

import { entryOf, sizeOf } from "../../../src/cache/entry.ts";
import type { Fetched } from "../../../src/exchange.ts";
import { entryWith } from "../../contract/store-contract.ts";

function fetched(change: Partial<Fetched> = {}): Fetched {
  return {
    status: 200,
    contentType: "application/json",
    body: Buffer.from("{}"),
    lastModified: undefined,
    ...change,
  };
}

describe("the entry of an answer", () => {
  it("has what came, when it came and until when it is fresh", () => {
    const answer = fetched({ status: 404, lastModified: "Thu, 15 Jan 2026 11:00:00 GMT" });
    expect(entryOf(answer, 1_000, 500)).toEqual({
      ...answer,
      encoded: {},
      etag: expect.any(String),
      storedAt: 1_000,
      freshUntil: 1_500,
    });
  });

  it("has a tag that depends on the body, and on nothing else", () => {
    const tag = entryOf(fetched(), 1_000, 500).etag;
    expect(entryOf(fetched({ contentType: "text/plain", status: 404 }), 2_000, 9).etag).toBe(tag);
    const bodies = ["", "{}", "{} ", "[]", "\u0000"].map((text) => Buffer.from(text));
    const tags = bodies.map((body) => entryOf(fetched({ body }), 1_000, 500).etag);
    expect(new Set(tags).size).toBe(bodies.length);
  });

  it("has a tag that can stand in a header as it is", () => {
    for (let length = 0; length < 200; length++) {
      const { etag } = entryOf(fetched({ body: Buffer.alloc(length, length) }), 0, 0);
      expect(etag).toMatch(/^[\w-]{22}$/);
    }
  });

  it("weighs its key, its body and each of its codings, and something for itself", () => {
    const entry = entryWith({ body: Buffer.alloc(0) });
    const empty = sizeOf("", entry);
    expect(empty).toBeGreaterThan(0);
    expect(sizeOf("key", entry)).toBeGreaterThan(empty);
    expect(sizeOf("", { ...entry, body: Buffer.alloc(100) })).toBe(empty + 100);
    const encoded = { gzip: Buffer.alloc(10), br: Buffer.alloc(20), zstd: Buffer.alloc(30) };
    expect(sizeOf("", { ...entry, encoded })).toBe(empty + 60);
  });
});
