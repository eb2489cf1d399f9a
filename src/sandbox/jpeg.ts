/**
 * Small baseline JPEGs of one colour (ITU T.81). A block of one colour has a DC coefficient and nothing else, and after
 * the first block each one equals the block before, so the encoder needs no cosine transform and only three codes.
 */

/** With a DC quantiser of 8, the DC coefficient of a one-colour block is its value minus 128. */
const DC_QUANTISER = 8;
/** The DC codes: `0` for no difference, `10` for a difference of 7 bits. The number of codes by length, then their sizes. */
const DC_TABLE = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
/** The only AC code, of one bit: end of block. */
const AC_TABLE = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

function segment(marker: number, ...payload: number[]): number[] {
  const length = payload.length + 2;
  return [0xff, marker, length >> 8, length & 0xff, ...payload];
}

/** The blocks as bits: in each, luminance, blue and red difference. */
function scanOf(blocks: number, colour: readonly number[]): number[] {
  const first = colour.map((value) => `10${value.toString(2).padStart(7, "0")}0`).join("");
  const bits = first + "000000".repeat(blocks - 1);
  const padded = bits.padEnd(Math.ceil(bits.length / 8) * 8, "1");
  // A byte of ones would read as a marker, so a zero follows it.
  return (padded.match(/.{8}/g) ?? []).flatMap((byte) =>
    byte === "11111111" ? [255, 0] : [Number.parseInt(byte, 2)],
  );
}

/**
 * Draws a picture.
 * @param width in pixels, 1 to 65535; `height` likewise
 * @param seed chooses the colour
 * @param comment is written into the file and is not visible; empty: none
 */
export function drawJpeg(width: number, height: number, seed: number, comment = ""): Buffer {
  const colour = [64 + (seed % 64), 64 + ((seed * 7) % 64), 64 + ((seed * 13) % 64)];
  const quantisers = Array.from({ length: 64 }, (_, index) => (index === 0 ? DC_QUANTISER : 1));
  return Buffer.from([
    0xff,
    0xd8,
    ...segment(0xe0, ...Buffer.from("JFIF\0"), 1, 1, 0, 0, 1, 0, 1, 0, 0),
    ...(comment === "" ? [] : segment(0xfe, ...Buffer.from(comment))),
    ...segment(0xdb, 0, ...quantisers),
    ...segment(
      0xc0,
      8,
      height >> 8,
      height & 0xff,
      width >> 8,
      width & 0xff,
      3,
      1,
      0x11,
      0,
      2,
      0x11,
      0,
      3,
      0x11,
      0,
    ),
    ...segment(0xc4, 0x00, ...DC_TABLE),
    ...segment(0xc4, 0x10, ...AC_TABLE),
    ...segment(0xda, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0),
    ...scanOf(Math.ceil(width / 8) * Math.ceil(height / 8), colour),
    0xff,
    0xd9,
  ]);
}
