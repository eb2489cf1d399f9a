import { setTimeout } from "node:timers/promises";

/** How long a fault, or the whole soak, lasts. A signal ends it early. */
export async function lasting(ms: number, signal?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { ...(signal && { signal }) }).catch(() => undefined);
}

/** Polls the state of another process. @returns whether it came to be so in that time */
export async function polled(holds: () => Promise<boolean>, withinMs: number): Promise<boolean> {
  const until = performance.now() + withinMs;
  while (performance.now() < until) {
    if (await holds().catch(() => false)) return true;
    await lasting(50);
  }
  return false;
}
