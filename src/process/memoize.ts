/** The most texts that are remembered, and the length of the longest one. All texts together have at most 128 KiB. */
const MOST_TEXTS = 256;
const LONGEST_TEXT = 256;

/**
 * Caches the results of a function of a header's text, because callers send the same few texts repeatedly; or of an object that
 * seldom changes, such as the settings. `undefined` is not cached.
 * @param most how many results are remembered; 1: the latest
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
