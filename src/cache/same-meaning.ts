/**
 * Whether two bodies say the same: byte by byte, or, where both are JSON, member by member in any order.
 * Numbers are compared as they are written, so that none is rounded to another. Pure.
 */
import { isDeepStrictEqual } from "node:util";

export function sameMeaning(contentType: string, before: Buffer, after: Buffer): boolean {
  if (before.equals(after)) return true;
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(contentType)) return false;
  try {
    const [one, other] = [before.toString("utf8"), after.toString("utf8")];
    // What differs, as most do that come here, shows without looking at how numbers are written, which takes many
    // times as long; every caller waits meanwhile.
    if (!isDeepStrictEqual(JSON.parse(one), JSON.parse(other))) return false;
    return isDeepStrictEqual(readAsWritten(one), readAsWritten(other));
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

function readAsWritten(body: string): unknown {
  // The library's types do not know the reviver's third argument yet (ECMA-262, source text access).
  return Reflect.apply(JSON.parse, JSON, [body, revive]);
}
