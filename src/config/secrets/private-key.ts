import type { Secret } from "./secret.ts";

/** The private key in use, which may change, and all earlier ones. */
export interface PrivateKeys {
  /** @returns the key that signs requests now */
  readonly current: () => string;
  /** @returns the number of keys so far. Messages may show it. */
  readonly version: () => number;
  /** Every key so far and every other secret, for masking. A new key is added at the end. */
  readonly known: readonly string[];
  /** @returns whether the key differs from the current one */
  readonly replace: (key: Secret) => boolean;
  /** Adds a secret to mask, for example a password or a token that was read while the process runs. */
  readonly mask: (secret: string) => void;
}

/** @param others further secrets to mask */
export function createPrivateKeys(first: Secret, others: readonly string[] = []): PrivateKeys {
  const known: string[] = [...new Set([first.reveal(), ...others])];
  const mask = (secret: string): void => {
    if (!known.includes(secret)) known.push(secret);
  };
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
      mask(next);
      return true;
    },
    mask,
  };
}
