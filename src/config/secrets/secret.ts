import { inspect } from "node:util";

/** Replaces a secret in printed text. */
export const SECRET_TEXT = "[secret]";

/**
 * A secret value. Only `reveal` returns it. Logging, JSON, template strings and `util.inspect` print `[secret]`.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
    Object.freeze(this);
  }

  /** @returns the value. Use it only for signing, connecting and comparing. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return SECRET_TEXT;
  }

  toJSON(): string {
    return SECRET_TEXT;
  }

  [inspect.custom](): string {
    return SECRET_TEXT;
  }
}

/**
 * Finds all secrets in the settings, for masking.
 * @returns each secret, and the password in each secret URL
 */
export function secretsIn(value: unknown): string[] {
  if (value instanceof Secret) {
    const password = URL.parse(value.reveal())?.password ?? "";
    return password === "" ? [value.reveal()] : [value.reveal(), password];
  }
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(secretsIn) : [];
}
