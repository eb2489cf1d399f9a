/**
 * Which block a page lies in. Blocks of a search lie side by side from its first result on.
 */
import type { Stretch } from "./block-index.ts";

/**
 * @returns the block of a size that a page lies in, or `undefined` where it lies in two: they share no record, so
 *   a mixture of two states of the upstream could not be noticed
 */
export function blockAround({ offset, limit }: Stretch, size: number): Stretch | undefined {
  const block = blockAt(offset, size);
  return offset + limit <= block.offset + size ? block : undefined;
}

/** @returns the block of a size that holds a result */
export function blockAt(offset: number, size: number): Stretch {
  return { offset: offset - (offset % size), limit: size };
}

/** The sizes that a search is tried with, one after the other, before its pages are asked exactly. */
export function sizesFrom(largest: number): readonly number[] {
  return [largest, Math.floor(largest / 2), Math.floor(largest / 4)].filter((size) => size >= 1);
}
