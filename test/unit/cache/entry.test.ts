import { describe, expect, it } from "vitest";

import { type Entry, entryOf, sizeOf } from "../../../src/cache/entry.ts";
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

  it("has the size of its key, its tags, and its body in each form, with response heads for each", () => {
    const entry = entryWith("", 0, { tags: [] });
    const sizeWith = (bodies: Entry["bodies"]): number => sizeOf("", { ...entry, bodies });
    expect(sizeOf("key", { ...entry, tags: ["area:1"] })).toBeGreaterThan(sizeOf("", entry));
    const [gzip, br] = [Buffer.alloc(10), Buffer.alloc(20)];
    const heads = sizeWith({ gzip }) - sizeWith({}) - 10;
    expect([heads > 0, sizeWith({ gzip, br }) - sizeWith({})]).toEqual([true, 30 + 2 * heads]);
    const packed = inFrames(Buffer.alloc(1_000));
    const { zstd, head, tail, framesAt } = packed;
    expect(sizeWith({ packed }) - sizeWith({ zstd })).toBe(head.length + tail.length + framesAt.byteLength);
  });
});
