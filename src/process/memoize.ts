/** The most texts that are remembered, and the length of the longest one. All texts together have at most 128 KiB. */
const MOST_TEXTS = 256;
const LONGEST_TEXT = 256;

/**
 * Caches the results of a function. Callers send the same few header texts repeatedly, and objects such as the settings seldom
 * change. `undefined` is not cached.
 * @param most the most results that are kept; 1: only the latest one
 */
export function memoize<T, Of = string>(compute: (of: Of) => T, most = MOST_TEXTS): (of: Of) => T {
  const known = new Map<Of, T>();
  return (of) => {
    const remembered = known.get(of);
    if (remembered !== undefined) return remembered;
    const result = compute(of);
    const isLong = typeof of === "string" && of.length > LONGEST_TEXT;
    if (!isLong && result !== undefined) {
      if (known.size >= most) known.clear();
      known.set(of, result);
    }
    return result;
  };
}
