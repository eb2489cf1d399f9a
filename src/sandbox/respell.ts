/**
 * The same JSON in other bytes.
 */
import type { Answer } from "./answer.ts";

/** The same value with the members of every object in reverse order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, member]) => [name, reversed(member)] as const),
  );
}

/**
 * The body of a proper answer, written otherwise: members in another order, white space between them, slashes
 * and letters beyond ASCII as they are where the upstream escapes them. Other bodies come back as they are.
 */
export function respelled({ headers, body, changedAt }: Answer): Buffer {
  if (changedAt === undefined || headers["Content-Type"] === "image/jpeg") return body;
  return Buffer.from(`${JSON.stringify(reversed(JSON.parse(body.toString())), undefined, 1)}\n`);
}
