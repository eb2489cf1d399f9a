/**
 * Whether two bodies have the same meaning: the same bytes, or, for JSON, the same members in any order. Numbers
 * are compared as written, because parsing may round two of them to the same value. Pure.
 */
import { isDeepStrictEqual } from "node:util";

export function sameMeaning(contentType: string, before: Buffer, after: Buffer): boolean {
  if (before.equals(after)) return true;
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(contentType)) return false;
  try {
    const [one, other] = [before.toString("utf8"), after.toString("utf8")];
    // Most bodies differ at this point, and this cheap comparison finds that. Comparing numbers as written takes many
    // times as long and blocks all callers. After it, a number can only stand where the other body has one, too.
    if (!isDeepStrictEqual(JSON.parse(one), JSON.parse(other))) return false;
    return isDeepStrictEqual(readAsWritten(one), readAsWritten(other));
  } catch {
    return false;
  }
}

/** Numbers are read as their text. */
function readAsWritten(body: string): unknown {
  const revive = (_name: string, value: unknown, { source }: { readonly source?: string }): unknown =>
    typeof value === "number" ? source : value;
  // TypeScript's library does not declare the reviver's third argument yet (ECMA-262, source text access).
  return Reflect.apply(JSON.parse, JSON, [body, revive]);
}
