/**
 * The envelope of the upstream's JSON answers (interface, section 2.7). The checks find content with status 200 that is not
 * an answer.
 */

/**
 * Checks a parsed body against the envelope.
 * @param body the parsed JSON
 * @param resource the requested resource; its name is the key of the array
 * @param serviceId the requested record; `undefined` for a list
 * @returns the fault for the log, `undefined` if the body is valid
 */
export function envelopeFault(
  body: unknown,
  resource: string,
  serviceId: string | undefined,
): string | undefined {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return "not an object";
  const records: unknown = Reflect.get(body, resource);
  if (!Array.isArray(records)) return "array of records missing";
  if (!isCountOf(Reflect.get(body, "count"), records.length)) return "count is not the number of records";
  if (serviceId === undefined) return undefined;
  if (records.length !== 1) return "more or fewer than one record";
  return isRecord(records[0], serviceId) ? undefined : "another record than the one asked for";
}

/** `count` may be absent: the interface does not say that it is required. */
function isCountOf(count: unknown, records: number): boolean {
  return count === undefined || count === records || count === String(records);
}

/** The record's id may also be absent. If it is present, it must be the requested one. */
function isRecord(record: unknown, serviceId: string): boolean {
  if (typeof record !== "object" || record === null) return false;
  const id: unknown = Reflect.get(record, "serviceId");
  // `JSON.parse` rounds large numbers, and `Number` rounds them in the same way.
  return id === undefined || id === serviceId || id === Number(serviceId);
}

/**
 * Reads the paging fields of a body.
 * @param body the parsed JSON of a valid envelope
 * @returns `undefined` if the body is not a list, or has no `totalCount`
 */
export function pageIn(
  body: unknown,
  resource: string,
): { totalCount: number; count: number; limit?: number } | undefined {
  const number = (name: string): number | undefined => {
    const value: unknown = Object(body)[name];
    return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined;
  };
  const totalCount = number("totalCount");
  const limit = number("limit");
  const records: unknown = Object(body)[resource];
  if (totalCount === undefined || !Array.isArray(records)) return undefined;
  return { totalCount, count: records.length, ...(limit !== undefined && { limit }) };
}

/**
 * @param body the parsed JSON of a valid envelope
 * @returns the ids of the records in it
 */
export function recordIdsIn(body: unknown, resource: string): string[] {
  const records: unknown = Object(body)[resource];
  if (!Array.isArray(records)) return [];
  return records.flatMap((record: unknown) => {
    const id: unknown = Object(record).serviceId;
    return typeof id === "number" || typeof id === "string" ? [String(id)] : [];
  });
}
