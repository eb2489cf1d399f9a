/**
 * Whether two bodies say the same: byte by byte, or, where both are JSON, member by member in any order.
 * Numbers are compared as they are written, so that none is rounded to another. Pure.
 */
import { isDeepStrictEqual } from "node:util";

export function sameMeaning(contentType: string, before: Buffer, after: Buffer): boolean {
  if (before.equals(after)) return true;
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(contentType)) return false;
  try {
    return isDeepStrictEqual(read(before), read(after));
  } catch {
    return false;
  }
}

/** A number as it is written; no text of the body can be mistaken for one. */
class Written {
  readonly digits: string;
  constructor(digits: string) {
    this.digits = digits;
  }
}

/** Numbers become what they are written as. */
function revive(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  return typeof value === "number" ? new Written(source ?? String(value)) : value;
}

function read(body: Buffer): unknown {
  // The library's types do not know the reviver's third argument yet (ECMA-262, source text access).
  return Reflect.apply(JSON.parse, JSON, [body.toString("utf8"), revive]);
}
