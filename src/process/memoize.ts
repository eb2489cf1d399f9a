/** The most texts that are remembered, and the length of the longest one. All texts together have at most 128 KiB. */
const MOST_TEXTS = 256;
const LONGEST_TEXT = 256;

/**
 * Caches the results of a function of a header's text, because callers send the same few texts repeatedly. `undefined` is not
 * cached.
 * @param version when it changes, the cache is cleared, because the function may then have other results
 */
export function memoize<T>(compute: (text: string) => T, version = (): number => 0): (text: string) => T {
  const known = new Map<string, T>();
  let rememberedAt = version();
  return (text) => {
    const current = version();
    if (current !== rememberedAt) {
      known.clear();
      rememberedAt = current;
    }
    const remembered = known.get(text);
    if (remembered !== undefined) return remembered;
    const result = compute(text);
    if (text.length <= LONGEST_TEXT && result !== undefined) {
      if (known.size >= MOST_TEXTS) known.clear();
      known.set(text, result);
    }
    return result;
  };
}
