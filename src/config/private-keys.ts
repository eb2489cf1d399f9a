import type { Secret } from "./secret.ts";

/** The private key in use, which may change, and all there were before it. */
export interface PrivateKeys {
  /** To sign with now. */
  readonly current: () => string;
  /** Told apart by a number, which may be shown. */
  readonly version: () => number;
  /** Every key so far and every other secret, which nobody may ever see; a new key is added at its end. */
  readonly known: readonly string[];
  /** @returns whether it is another key than before */
  readonly replace: (key: Secret) => boolean;
}

/** @param others further secrets that nobody may ever see */
export function createPrivateKeys(first: Secret, others: readonly string[] = []): PrivateKeys {
  const known: string[] = [...new Set([first.reveal(), ...others])];
  let current = first.reveal();
  let version = 1;
  return {
    current: () => current,
    version: () => version,
    known,
    replace(key) {
      const next = key.reveal();
      if (next === current) return false;
      current = next;
      version++;
      if (!known.includes(next)) known.push(next);
      return true;
    },
  };
}
