/** Makes requests wait until a test releases them, so that the test decides what happens first. */
export interface Barrier {
  /** Makes requests wait from now on; with a prefix, only those whose path starts with it. */
  readonly hold: (pathPrefix?: string) => void;
  /** Releases all waiting requests and stops holding; with a count, releases the first ones and keeps holding. */
  readonly release: (count?: number) => void;
  /** The number of waiting requests. */
  readonly waiting: () => number;
  readonly isHolding: () => boolean;
  /** Resolves when the request may go on, or when its signal is aborted because the caller has hung up. */
  readonly pass: (path: string, signal: AbortSignal) => Promise<void>;
}

export function createBarrier(): Barrier {
  let heldPrefix: string | undefined;
  const waiters = new Set<() => void>();

  return {
    hold(pathPrefix = "") {
      heldPrefix = pathPrefix;
    },
    release(count) {
      if (count === undefined) heldPrefix = undefined;
      for (const letGo of [...waiters].slice(0, count)) letGo();
    },
    waiting: () => waiters.size,
    isHolding: () => heldPrefix !== undefined,
    async pass(path, signal) {
      if (heldPrefix === undefined || !path.startsWith(heldPrefix) || signal.aborted) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      const letGo = (): void => {
        waiters.delete(letGo);
        signal.removeEventListener("abort", letGo);
        resolve();
      };
      waiters.add(letGo);
      signal.addEventListener("abort", letGo);
      await promise;
    },
  };
}
