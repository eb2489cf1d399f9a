/** Makes requests wait until a test releases them, so that the test decides what happens first. */
export class Barrier {
  #heldPrefix: string | undefined;
  readonly #waiters = new Set<() => void>();

  /** Makes requests wait from now on; with a prefix, only those whose path starts with it. */
  hold(pathPrefix = ""): void {
    this.#heldPrefix = pathPrefix;
  }

  /** Releases all waiting requests and stops holding; with a count, releases the first ones and keeps holding. */
  release(count?: number): void {
    if (count === undefined) this.#heldPrefix = undefined;
    for (const letGo of [...this.#waiters].slice(0, count)) letGo();
  }

  /** The number of waiting requests. */
  get waiting(): number {
    return this.#waiters.size;
  }

  get isHolding(): boolean {
    return this.#heldPrefix !== undefined;
  }

  /** Resolves when the request may go on, or when its signal is aborted because the caller has hung up. */
  async pass(path: string, signal: AbortSignal): Promise<void> {
    if (this.#heldPrefix === undefined || !path.startsWith(this.#heldPrefix) || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const letGo = (): void => {
      this.#waiters.delete(letGo);
      signal.removeEventListener("abort", letGo);
      resolve();
    };
    this.#waiters.add(letGo);
    signal.addEventListener("abort", letGo);
    await promise;
  }
}
