const EVENT_LOOP_INTERVAL_MS = 40;

/**
 * Measures again and again how late a timer fires. Everything that delays the event loop delays every caller. The
 * measurement always uses real time, because a fake clock does not show delays of the event loop.
 *
 * It reports every single delay, not a quantile since the last scrape. So the number of scrapers does not matter, and the
 * histograms of several processes can be added up.
 * @param report receives each delay in milliseconds
 * @returns a function that stops the measurement. The measurement does not keep the process alive.
 */
export function watchEventLoop(report: (delayMs: number) => void): () => void {
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    report(Math.max(0, now - last - EVENT_LOOP_INTERVAL_MS));
    last = now;
  }, EVENT_LOOP_INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}
