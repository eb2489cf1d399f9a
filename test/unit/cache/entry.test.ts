import { describe, expect, it } from "vitest";

import { entryOf, sizeOf } from "../../../src/cache/entry.ts";
import type { Query } from "../../../src/query/query.ts";
import { entryWith, fetchedWith, inFrames, receiptAt } from "../../support/entries.ts";

const RECORD: Query = { kind: "record", resource: "sold", serviceId: "7", extras: [] };
const RECEIPT = receiptAt();

describe("the entry of an answer", () => {
  it("does not keep the larger memory block of which the received body is a part", () => {
    const body = Buffer.alloc(16_384, "{}").subarray(0, 700);
    const { identity } = entryOf(RECORD, fetchedWith({ body }), RECEIPT).bodies;
    expect(identity?.equals(body)).toBe(true);
    expect(identity?.buffer.byteLength).toBe(700);
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
