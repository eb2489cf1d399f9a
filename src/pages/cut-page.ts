/**
 * Cuts a page out of a block. The envelope is that of the block with the page's numbers. The records are bytes of the
 * block. Nothing is serialised again, so unknown fields, the order of keys, number formats and escapes stay as the
 * upstream wrote them.
 */
import type { BlockIndex, PageNumber, Stretch } from "./block-index.ts";
import type { Range } from "./json-ranges.ts";

/** The bytes of a block: a `Buffer`, or bytes that are decompressed when they are copied. */
export interface Bytes {
  readonly length: number;
  /** @returns how many bytes it copied */
  readonly copy: (target: Buffer, targetStart: number, start: number, end: number) => number;
}

/** A page as the upstream would have sent it, and which records of the block it has. */
export type CutPage = ReturnType<typeof cutPage>;

/**
 * Cuts a page out of a block. Call `holdsPage` first.
 * @param body the block's bytes
 * @param page a stretch that begins in the block, or beyond the last record of the search
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function cutPage(body: Bytes, index: BlockIndex, page: Stretch) {
  const from = Math.min(Math.max(0, page.offset - index.offset), index.starts.length);
  const to = Math.min(from + page.limit, index.starts.length);
  const numbers = { limit: page.limit, offset: page.offset, count: to - from };
  const patches = [
    ...index.numbers.map((number) => numberPatch(number, numbers)),
    recordsPatch(index, from, to),
  ];
  return { body: patched(body, patches), from, to };
}

/** Whether a block determines a page: it contains all records of the page, or shows that the page is empty. */
export function holdsPage(index: BlockIndex, { offset, limit }: Stretch): boolean {
  const end = index.offset + index.limit;
  if (offset >= index.totalCount) return true;
  return offset >= index.offset && Math.min(offset + limit, index.totalCount) <= end;
}

/** A part of the block, and its replacement. */
interface Patch {
  readonly at: Range;
  readonly by: Buffer | Range;
}

function numberPatch({ what, at }: PageNumber, numbers: Readonly<Record<PageNumber["what"], number>>): Patch {
  return { at, by: Buffer.from(String(numbers[what]), "latin1") };
}

/** White space around and between records stays. An empty array has none. */
function recordsPatch({ starts, ends, inside }: BlockIndex, from: number, to: number): Patch {
  const [first, last] = [starts[0], ends.at(-1)];
  const [start, end] = [starts[from], ends[to - 1]];
  if (first === undefined || last === undefined) return { at: inside, by: inside };
  if (start === undefined || end === undefined || from >= to) return { at: inside, by: Buffer.alloc(0) };
  return { at: { start: first, end: last }, by: { start, end } };
}

/** @returns the bytes with some parts replaced, in memory of their own, because pages are kept */
function patched(body: Bytes, patches: readonly Patch[]): Buffer {
  const grown = patches.reduce((sum, { at, by }) => sum + lengthOf(by) - lengthOf(at), 0);
  const result = Buffer.allocUnsafeSlow(body.length + grown);
  let [position, written] = [0, 0];
  for (const { at, by } of patches.toSorted((one, other) => one.at.start - other.at.start)) {
    written += body.copy(result, written, position, at.start);
    written += Buffer.isBuffer(by) ? by.copy(result, written) : body.copy(result, written, by.start, by.end);
    position = at.end;
  }
  written += body.copy(result, written, position, body.length);
  // The rest of the result would be what this memory contained before.
  if (written !== result.length) throw new Error("The bytes of a page are not complete.");
  return result;
}

function lengthOf(bytes: Buffer | Range): number {
  return Buffer.isBuffer(bytes) ? bytes.length : bytes.end - bytes.start;
}
