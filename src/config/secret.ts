import { inspect } from "node:util";

/** What stands for a secret wherever one would otherwise be printed. */
export const SECRET_TEXT = "[secret]";

/**
 * A value that shows itself only when asked by name. Logging, JSON, template strings and
 * `util.inspect` of anything that holds it print `[secret]`.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
    Object.freeze(this);
  }

  /** The value itself: for signing and connecting only. */
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
 * Everything secret in the settings, to be kept out of what is written: each secret as it is, and of one that is an
 * address its password too.
 */
export function secretsIn(value: unknown): string[] {
  if (value instanceof Secret) {
    const password = URL.parse(value.reveal())?.password ?? "";
    return password === "" ? [value.reveal()] : [value.reveal(), password];
  }
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(secretsIn) : [];
}
