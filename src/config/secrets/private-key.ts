import type { Secret } from "./secret.ts";

/**
 * Keeps the newest private key and the previous one, and masks all earlier ones. The API may switch keys before or after our
 * file does. So when the API refuses one of the two keys, the gateway uses the other one.
 */
export interface PrivateKeys {
  /** @returns the key that signs requests now */
  readonly current: () => string;
  /** @returns the key that was set last, even while the previous key signs requests */
  readonly newest: () => string;
  /** @returns the number of the key that signs requests now. Messages may show it. */
  readonly currentNumber: () => number;
  /** Changes when another key is set, and when the API refuses a key that it accepted before. */
  readonly version: () => number;
  /** The API refused a call that this key signed. @returns whether to repeat the call with the key that is in use now */
  readonly refused: (number: number) => boolean;
  /** The API accepted this key. @returns which key it is, if the API had refused the other one before */
  readonly accepted: (number: number) => "new" | "previous" | undefined;
  /** Every key so far and every other secret, for masking. A new key is added at the end. */
  readonly known: readonly string[];
  /** @returns whether the key differs from the newest one */
  readonly replace: (key: Secret) => boolean;
  /** From now on, the gateway uses only the newest key. */
  readonly forgetPrevious: () => void;
  /** Adds a secret to mask, for example a password or a token that was read while the process runs. */
  readonly mask: (secret: string) => void;
}

interface NumberedKey {
  readonly number: number;
  readonly key: string;
}

/** @param others further secrets to mask */
export function createPrivateKeys(first: Secret, others: readonly string[] = []): PrivateKeys {
  const known: string[] = [...new Set([first.reveal(), ...others])];
  const mask = (secret: string): void => {
    if (!known.includes(secret)) known.push(secret);
  };
  let newest: NumberedKey = { number: 1, key: first.reveal() };
  let previous: NumberedKey | undefined;
  let current = newest;
  /** False after the API has refused one of the two keys, until it accepts one or the keys change. */
  let isSettled = true;
  let version = 1;
  return {
    current: () => current.key,
    newest: () => newest.key,
    currentNumber: () => current.number,
    version: () => version,
    refused(number) {
      if (number !== current.number) return true;
      if (previous === undefined) return false;
      // If the API has refused both keys, this call is not repeated, and the next call uses the other key.
      const isWorthwhile = isSettled;
      if (isSettled) version++;
      isSettled = false;
      current = current === newest ? previous : newest;
      return isWorthwhile;
    },
    accepted(number) {
      if (isSettled || number !== current.number) return undefined;
      isSettled = true;
      return current === newest ? "new" : "previous";
    },
    known,
    replace(secret) {
      const key = secret.reveal();
      if (key === newest.key) return false;
      previous = newest;
      newest = { number: newest.number + 1, key };
      current = newest;
      isSettled = true;
      version++;
      mask(key);
      return true;
    },
    forgetPrevious() {
      previous = undefined;
      if (current === newest) return;
      current = newest;
      isSettled = true;
      version++;
    },
    mask,
  };
}
