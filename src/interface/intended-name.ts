/** Finds the intended name for a misspelled one, for the hint in an error. */

/** Longer names get no hint, because they are not typing mistakes and the comparison would be slow. */
const LONGEST_NAME = 64;

/**
 * Finds the name that was probably intended. Case, `-` and `_` do not count, and about one letter in three may be wrong.
 * @returns the nearest of the names; `undefined` if none is near
 */
export function nearest(name: string, names: Iterable<string>): string | undefined {
  if (name.length > LONGEST_NAME) return undefined;
  const written = plain(name);
  let best: { name: string; distance: number } | undefined;
  for (const candidate of names) {
    const distance = editDistance(written, plain(candidate));
    if (distance < (best?.distance ?? Infinity)) best = { name: candidate, distance };
  }
  return best && best.distance <= Math.ceil(written.length / 3) ? best.name : undefined;
}

/** Whether two names differ by at most one letter, besides case, `-` and `_`. */
export function almostSame(one: string, other: string): boolean {
  return editDistance(plain(one), plain(other)) <= 1;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, "");
}

/** The Levenshtein distance: the number of letters to insert, delete or replace. */
function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 0; row < from.length; row += 1) {
    const current = [row + 1];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (previous[column - 1] ?? 0) + (to[column - 1] === from[row] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[to.length] ?? 0;
}
