const INTERVAL_MS = 40;

/**
 * Tells, again and again, how much later than it should a timer was called: what holds up the event loop
 * holds up every caller. It goes by the process' real time, for which no other clock can stand in.
 *
 * Each delay is told, not a quantile of them since the last scrape: so it does not matter how often,
 * or by how many, the process is scraped, and processes can be added up.
 * @param tell given each delay in milliseconds
 * @returns stops it; by itself it does not keep the process alive
 */
export function watchEventLoop(tell: (delayMs: number) => void): () => void {
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    tell(Math.max(0, now - last - INTERVAL_MS));
    last = now;
  }, INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}
