/**
 * Something to be said at most once in a while, however often it happens.
 * @param now epoch milliseconds
 * @param say is told how often it has happened since it was said last, this time included
 */
export function seldom(everyMs: number, now: () => number, say: (times: number) => void): () => void {
  let dueAt = -Infinity;
  let times = 0;
  return () => {
    times++;
    if (now() < dueAt) return;
    dueAt = now() + everyMs;
    say(times);
    times = 0;
  };
}
