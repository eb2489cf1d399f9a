/** How long a fault lasts. */
export const lasting = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** Polls the state of another process. @returns whether it came to be so in that time */
export async function polled(holds: () => Promise<boolean>, withinMs: number): Promise<boolean> {
  const until = performance.now() + withinMs;
  while (performance.now() < until) {
    if (await holds().catch(() => false)) return true;
    await lasting(50);
  }
  return false;
}
