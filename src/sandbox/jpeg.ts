/**
 * Small baseline JPEGs (ITU T.81): a little house on a lawn, drawn in blocks of 8 by 8 pixels of one colour.
 *
 * A block of one colour has a DC coefficient and nothing else, so the encoder needs no cosine transform.
 */

/** A colour as JPEG stores it: luminance, blue and red difference, each 0 to 255. */
type Colour = readonly [y: number, cb: number, cr: number];

const BLOCK = 8;

/** With a DC quantiser of 8, the DC coefficient of a one-colour block is its value minus 128. */
const DC_QUANTISER = 8;

/** T.81 table K.3: the number of DC codes of each length from 1 to 16 bits, for sizes 0 to 11. */
const DC_CODE_COUNTS = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
const DC_SIZES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/** One AC code, of one bit: end of block. */
const AC_CODE_COUNTS = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const END_OF_BLOCK = { code: 0, bits: 1 };

interface Code {
  readonly code: number;
  readonly bits: number;
}

/** The canonical Huffman codes of a table (T.81, annex C), in the order of its symbols. */
function codesOf(counts: readonly number[]): Code[] {
  const codes: Code[] = [];
  let code = 0;
  for (const [index, count] of counts.entries()) {
    for (let nth = 0; nth < count; nth += 1) {
      codes.push({ code, bits: index + 1 });
      code += 1;
    }
    code *= 2;
  }
  return codes;
}

const DC_CODES = codesOf(DC_CODE_COUNTS);

class BitWriter {
  readonly bytes: number[] = [];
  #pending = 0;
  #filled = 0;

  write(value: number, bits: number): void {
    for (let bit = bits - 1; bit >= 0; bit -= 1) {
      this.#pending = this.#pending * 2 + (Math.floor(value / 2 ** bit) % 2);
      this.#filled += 1;
      if (this.#filled === BLOCK) this.#flush();
    }
  }

  /** Fills the last byte with ones. */
  end(): void {
    while (this.#filled > 0) this.write(1, 1);
  }

  #flush(): void {
    this.bytes.push(this.#pending);
    // A byte of ones would read as a marker, so a zero follows it.
    if (this.#pending === 0xff) this.bytes.push(0);
    this.#pending = 0;
    this.#filled = 0;
  }
}

/** A block: its DC coefficient as the difference from the block before, then the end of the block. */
function writeBlock(writer: BitWriter, difference: number): void {
  const size = difference === 0 ? 0 : Math.floor(Math.log2(Math.abs(difference))) + 1;
  const dc = DC_CODES[size];
  if (!dc) throw new RangeError(`a difference of ${difference} has no code`);
  writer.write(dc.code, dc.bits);
  // Negative differences are written as their one's complement.
  if (size > 0) writer.write(difference > 0 ? difference : difference + 2 ** size - 1, size);
  writer.write(END_OF_BLOCK.code, END_OF_BLOCK.bits);
}

function segment(marker: number, payload: readonly number[]): number[] {
  const length = payload.length + 2;
  return [0xff, marker, length >> 8, length & 0xff, ...payload];
}

function headers(width: number, height: number, comment: string): number[] {
  const quantisers = Array.from({ length: 64 }, (_, index) => (index === 0 ? DC_QUANTISER : 1));
  const components = [1, 2, 3].flatMap((id) => [id, 0x11, 0]);
  return [
    0xff,
    0xd8,
    ...segment(0xe0, [...Buffer.from("JFIF\0"), 1, 1, 0, 0, 1, 0, 1, 0, 0]),
    ...(comment === "" ? [] : segment(0xfe, [...Buffer.from(comment)])),
    ...segment(0xdb, [0, ...quantisers]),
    ...segment(0xc0, [8, height >> 8, height & 0xff, width >> 8, width & 0xff, 3, ...components]),
    ...segment(0xc4, [0x00, ...DC_CODE_COUNTS, ...DC_SIZES]),
    ...segment(0xc4, [0x10, ...AC_CODE_COUNTS, 0]),
    ...segment(0xda, [3, ...[1, 2, 3].flatMap((id) => [id, 0]), 0, 63, 0]),
  ];
}

const SKY: Colour = [200, 150, 110];
const LAWN: Colour = [130, 100, 105];

/** Sky above, lawn below, and a house in the middle. The colour of the house depends on the seed. */
function colourAt(across: number, down: number, seed: number): Colour {
  const isHouse = across > 0.3 && across < 0.7 && down > 0.35 && down < 0.8;
  if (isHouse) return [60 + (seed % 120), 80 + ((seed * 7) % 96), 80 + ((seed * 13) % 96)];
  return down < 0.6 ? SKY : LAWN;
}

/**
 * Draws a picture.
 * @param width in pixels, 1 to 65535
 * @param height in pixels, 1 to 65535
 * @param seed the same seed gives the same picture
 * @param comment is written into the file and is not visible; empty: none
 */
export function drawJpeg(width: number, height: number, seed: number, comment = ""): Buffer {
  const [columns, rows] = [Math.ceil(width / BLOCK), Math.ceil(height / BLOCK)];
  const writer = new BitWriter();
  let before: Colour = [128, 128, 128];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const colour = colourAt((column + 0.5) / columns, (row + 0.5) / rows, seed);
      writeBlock(writer, colour[0] - before[0]);
      writeBlock(writer, colour[1] - before[1]);
      writeBlock(writer, colour[2] - before[2]);
      before = colour;
    }
  }
  writer.end();
  return Buffer.from([...headers(width, height, comment), ...writer.bytes, 0xff, 0xd9]);
}
