/**
 * Authenticates values that are kept where others may write, for example in Redis. The key of the seal is derived from a
 * secret. A value is valid only under the name with which it was sealed, so values cannot be exchanged for each other.
 */
import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";

export interface Seal {
  /** @returns the authentication code of a value, `SEAL_BYTES` long */
  readonly codeOf: (name: string, value: Uint8Array) => Buffer;
  readonly isValid: (name: string, value: Uint8Array, code: Uint8Array) => boolean;
  /** @returns the text with its authentication code */
  readonly seal: (name: string, text: string) => string;
  /** @returns the text; `undefined` if it was not sealed under this name, or is longer than this number of characters */
  readonly open: (name: string, sealed: string, most: number) => string | undefined;
}

export const SEAL_BYTES = 32;
const CODE_CHARACTERS = 43;

/** @param secret returns the secret in use. Values sealed with the secret before it stay valid. */
export function createSeal(secret: () => string): Seal {
  let latest = secret();
  /** The newest first. */
  let keys = [keyOf(latest)];

  function currentKeys(): readonly Buffer[] {
    const now = secret();
    if (now !== latest) {
      latest = now;
      keys = [keyOf(now), ...keys.slice(0, 1)];
    }
    return keys;
  }

  function codeWith(key: Buffer, name: string, value: Uint8Array): Buffer {
    // The length keeps a name and its value apart.
    return createHmac("sha256", key).update(`${name.length} ${name}`).update(value).digest();
  }

  const codeOf: Seal["codeOf"] = (name, value) => codeWith(currentKeys()[0] ?? NO_KEY, name, value);
  const isValid: Seal["isValid"] = (name, value, code) =>
    code.length === SEAL_BYTES &&
    currentKeys().some((key) => timingSafeEqual(codeWith(key, name, value), code));

  return {
    codeOf,
    isValid,
    seal: (name, text) => codeOf(name, Buffer.from(text)).toString("base64url") + text,
    open(name, sealed, most) {
      if (sealed.length > most + CODE_CHARACTERS) return undefined;
      const code = Buffer.from(sealed.slice(0, CODE_CHARACTERS), "base64url");
      const text = sealed.slice(CODE_CHARACTERS);
      return isValid(name, Buffer.from(text), code) ? text : undefined;
    },
  };
}

const NO_KEY = Buffer.alloc(0);

function keyOf(secret: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", "property-gateway: values in Redis", SEAL_BYTES));
}
