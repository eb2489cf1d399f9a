import { describe, expect, it } from "vitest";

import { drawJpeg } from "../../../src/sandbox/jpeg.ts";

interface Segment {
  readonly marker: number;
  readonly payload: Buffer;
}

/** The segments up to the scan, and the scan's bytes. */
function takeApart(picture: Buffer): { segments: Segment[]; scan: Buffer } {
  const segments: Segment[] = [];
  let at = 2;
  while (segments.at(-1)?.marker !== 0xda) {
    const length = picture.readUInt16BE(at + 2);
    segments.push({ marker: picture[at + 1] ?? 0, payload: picture.subarray(at + 4, at + 2 + length) });
    at += 2 + length;
  }
  return { segments, scan: picture.subarray(at, -2) };
}

/** Codes as strings of bits, with their symbols, from a table of the file. */
function readTable(payload: Buffer): Map<string, number> {
  const table = new Map<string, number>();
  let code = 0;
  let symbol = 17;
  for (let length = 1; length <= 16; length += 1) {
    for (let nth = 0; nth < (payload[length] ?? 0); nth += 1) {
      table.set(code.toString(2).padStart(length, "0"), payload[symbol] ?? 0);
      symbol += 1;
      code += 1;
    }
    code *= 2;
  }
  return table;
}

/** Decodes the scan: the luminance, blue and red difference of each block. */
function decode(picture: Buffer): number[][] {
  const { segments, scan } = takeApart(picture);
  const [dc, ac] = segments.filter(({ marker }) => marker === 0xc4).map(({ payload }) => readTable(payload));
  const frame = segments.find(({ marker }) => marker === 0xc0)!.payload;
  const blocks = Math.ceil(frame.readUInt16BE(1) / 8) * Math.ceil(frame.readUInt16BE(3) / 8);
  const bits = [...scan]
    .filter((byte, index) => !(byte === 0 && scan[index - 1] === 0xff))
    .map((byte) => byte.toString(2).padStart(8, "0"))
    .join("");
  let at = 0;
  const symbol = (table: Map<string, number>): number => {
    let code = "";
    while (!table.has(code) && at < bits.length) code += bits[at++];
    return table.get(code) ?? Number.NaN;
  };
  const before = [0, 0, 0];
  const colours = Array.from({ length: blocks }, () =>
    before.map((_, component) => {
      const size = symbol(dc!);
      const text = bits.slice(at, at + size);
      at += size;
      const value = size === 0 ? 0 : Number.parseInt(text, 2);
      before[component]! += text.startsWith("1") || size === 0 ? value : value - 2 ** size + 1;
      expect(symbol(ac!)).toBe(0);
      return before[component]! + 128;
    }),
  );
  expect(bits.length - at).toBeLessThan(8);
  expect(bits.slice(at)).toMatch(/^1*$/);
  return colours;
}

describe("drawJpeg", () => {
  it.each([
    [1, 1],
    [8, 8],
    [9, 17],
    [140, 94],
  ])("draws %ix%i as a JPEG that decodes completely", (width, height) => {
    const picture = drawJpeg(width, height, 4_000_123);
    expect(picture.subarray(0, 2)).toEqual(Buffer.from([0xff, 0xd8]));
    expect(picture.subarray(-2)).toEqual(Buffer.from([0xff, 0xd9]));
    const colours = decode(picture).flat();
    expect(colours).toHaveLength(Math.ceil(width / 8) * Math.ceil(height / 8) * 3);
    expect(colours.every((value) => value >= 0 && value <= 255)).toBe(true);
  });

  it("draws the sky first and a house in the property's own colour in the middle", () => {
    const colours = decode(drawJpeg(80, 80, 1));
    expect(colours[0]).toEqual([200, 150, 110]);
    expect(colours[55]).toEqual([61, 87, 93]);
  });

  it("depends only on the seed", () => {
    expect(drawJpeg(140, 94, 1)).toEqual(drawJpeg(140, 94, 1));
    expect(drawJpeg(140, 94, 1)).not.toEqual(drawJpeg(140, 94, 2));
  });
});
