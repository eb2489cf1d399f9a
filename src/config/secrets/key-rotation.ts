import type { Secret } from "./secret.ts";

export type PrivateKeys = ReturnType<typeof createPrivateKeys>;

/**
 * Keeps the newest private key and the previous one, and masks all earlier ones. The API may switch keys before or after our
 * file does. So when the API refuses one of the two keys, the gateway uses the other one.
 * @param others further secrets to mask
 */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createPrivateKeys(first: Secret, others: readonly string[] = []) {
  let newest = first.reveal();
  /** Every key so far and every other secret, for masking. A new one is added at the end. */
  const known: string[] = [...new Set([newest, ...others])];
  let previous: string | undefined;
  let current = newest;
  /** False after the API has refused one of the two keys, until it accepts one or the keys change. */
  let isSettled = true;
  let version = 1;

  /** Adds a secret to mask, for example a password or a token that was read while the process runs. */
  function mask(secret: string): void {
    if (!known.includes(secret)) known.push(secret);
  }

  function switchToNewest(): void {
    current = newest;
    isSettled = true;
    version++;
  }

  return {
    known,
    mask,
    /** @returns the key that signs requests now */
    current: (): string => current,
    /** @returns the key that was set last, even while the previous key signs requests */
    newest: (): string => newest,
    /** Changes when another key is set, and when the API refuses a key that it accepted before. */
    version: (): number => version,
    /** The API refused a call that this key signed. @returns whether to repeat the call with the key that is in use now */
    refused(key: string): boolean {
      if (key !== current) return true;
      if (previous === undefined) return false;
      // If the API has refused both keys, this call is not repeated, and the next call uses the other key.
      const isWorthwhile = isSettled;
      if (isSettled) version++;
      isSettled = false;
      current = current === newest ? previous : newest;
      return isWorthwhile;
    },
    /** The API accepted this key. @returns which key it is, if the API had refused the other one before */
    accepted(key: string): "new" | "previous" | undefined {
      if (isSettled || key !== current) return undefined;
      isSettled = true;
      return current === newest ? "new" : "previous";
    },
    /** @returns whether the key differs from the newest one */
    replace(secret: Secret): boolean {
      const key = secret.reveal();
      if (key === newest) return false;
      // The newest key may have a mistake, and the API may refuse it. The API accepts the key in use.
      previous = current === key ? newest : current;
      newest = key;
      switchToNewest();
      mask(key);
      return true;
    },
    /** From now on, the gateway uses only the newest key. */
    forgetPrevious(): void {
      previous = undefined;
      if (current !== newest) switchToNewest();
    },
  };
}
