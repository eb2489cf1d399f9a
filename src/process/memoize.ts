/** The most texts that are remembered, and the length of the longest one. All texts together have at most 128 KiB. */
const MOST_TEXTS = 256;
const LONGEST_TEXT = 256;

/**
 * Caches the results of a function of a header's text, because callers send the same few texts repeatedly. `undefined` is not
 * cached.
 */
export function memoize<T>(compute: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
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

/** Remembers the latest result of a function of an object that seldom changes, such as the settings. */
export function memoizeLatest<T extends object, R>(compute: (of: T) => R): (of: T) => R {
  let latest: { readonly of: T; readonly result: R } | undefined;
  return (of) => {
    if (latest?.of !== of) latest = { of, result: compute(of) };
    return latest.result;
  };
}
