/**
 * Authenticates values that are kept where others may write, for example in Redis. The key of the seal is derived from a
 * secret. A value is valid only under the name with which it was sealed, so values cannot be exchanged for each other.
 */
import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";

export type Seal = ReturnType<typeof createSeal>;

export const SEAL_BYTES = 32;
const CODE_CHARACTERS = 43;

/** @param secret returns the secret in use. Values sealed with the secret before it stay valid. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function createSeal(secret: () => string) {
  let latest = secret();
  /** The newest, and the one before it. */
  let keys: readonly [Buffer, ...Buffer[]] = [keyOf(latest)];

  function currentKeys(): typeof keys {
    const now = secret();
    if (now !== latest) keys = [keyOf(now), keys[0]];
    latest = now;
    return keys;
  }

  function codeWith(key: Buffer, name: string, value: Uint8Array): Buffer {
    // The length keeps a name and its value apart.
    return createHmac("sha256", key).update(`${name.length} ${name}`).update(value).digest();
  }

  /** @returns the authentication code of a value, `SEAL_BYTES` long */
  function codeOf(name: string, value: Uint8Array): Buffer {
    return codeWith(currentKeys()[0], name, value);
  }

  function isValid(name: string, value: Uint8Array, code: Uint8Array): boolean {
    if (code.length !== SEAL_BYTES) return false;
    return currentKeys().some((key) => timingSafeEqual(codeWith(key, name, value), code));
  }

  return {
    codeOf,
    isValid,
    /** @returns the text with its authentication code */
    seal: (name: string, text: string): string =>
      codeOf(name, Buffer.from(text)).toString("base64url") + text,
    /** @returns the text; `undefined` if it was not sealed under this name, or is longer than `most` characters */
    open: (name: string, sealed: string, most: number): string | undefined => {
      if (sealed.length > most + CODE_CHARACTERS) return undefined;
      const code = Buffer.from(sealed.slice(0, CODE_CHARACTERS), "base64url");
      const text = sealed.slice(CODE_CHARACTERS);
      return isValid(name, Buffer.from(text), code) ? text : undefined;
    },
  };
}

function keyOf(secret: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", "property-gateway: values in Redis", SEAL_BYTES));
}
