/**
 * The shape of the upstream's JSON answers (interface, section 2.7): enough of it to tell an answer
 * from something else that came back with status 200.
 */

/** What a body fails to be, or `undefined` where it is a proper answer. */
export type EnvelopeFault =
  | "not an object"
  | "array of records missing"
  | "count is not the number of records"
  | "more or fewer than one record";

/**
 * Checks a parsed body against the envelope.
 * @param body the parsed JSON
 * @param resource the resource asked for; its name is the key of the array
 * @param single whether one record was asked for (a single-record response has only the array)
 */
export function envelopeFault(body: unknown, resource: string, single: boolean): EnvelopeFault | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return "not an object";
  const records: unknown = Reflect.get(body, resource);
  if (!Array.isArray(records)) return "array of records missing";
  if (single) return records.length === 1 ? undefined : "more or fewer than one record";
  const count: unknown = Reflect.get(body, "count");
  if (typeof count === "number" && count !== records.length) return "count is not the number of records";
  return undefined;
}

/**
 * The ids of the records in a body.
 * @param body the parsed JSON, without an envelope fault
 */
export function recordIdsIn(body: unknown, resource: string): string[] {
  const records: unknown =
    typeof body === "object" && body !== null ? Reflect.get(body, resource) : undefined;
  if (!Array.isArray(records)) return [];
  const ids = records.map((record: unknown) => {
    const id: unknown =
      typeof record === "object" && record !== null ? Reflect.get(record, "serviceId") : undefined;
    return typeof id === "number" || typeof id === "string" ? String(id) : undefined;
  });
  return ids.filter((id) => id !== undefined);
}
