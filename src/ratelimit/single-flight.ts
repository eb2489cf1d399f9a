/** Work of which one at a time is enough: who asks for it while it is being done waits for that. */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () =>
    (running ??= work().finally(() => {
      running = undefined;
    }));
}

/** The same, but done once more for those who asked meanwhile: what is being done may not see why they asked. */
export function againAfter(work: () => Promise<void>): () => Promise<void> {
  let isWanted = false;
  const run = oneAtATime(async () => {
    do {
      isWanted = false;
      await work();
    } while (isWanted);
  });
  return () => {
    isWanted = true;
    return run();
  };
}
