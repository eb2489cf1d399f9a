/** The most texts that are remembered, and the longest of them: together at most 128 KiB. */
const MOST_TEXTS = 256;
const LONGEST_TEXT = 256;

/**
 * Makes a pure function of a header's text remember its results, because callers send the same few texts again and
 * again. `undefined` is not remembered.
 * @param version when it changes, everything is forgotten, because the function may have another result then
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
