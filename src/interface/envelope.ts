/** The envelope of the upstream's JSON answers (interface, section 2.7). */

/** A page of a list, as its envelope describes it. */
export interface ListPage {
  readonly totalCount: number;
  readonly count: number;
  readonly limit?: number;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads a parsed body. The checks find content with status 200 that is not an answer.
 * @param resource the requested resource; its name is the key of the array
 * @param serviceId the requested record; `undefined` for a list
 * @returns the ids of the records, and the page if the body is a list with a `totalCount`. For an invalid body: a text for the
 *   log that names the fault
 */
export function readEnvelope(
  body: unknown,
  resource: string,
  serviceId: string | undefined,
): { readonly recordIds: string[]; readonly page: ListPage | undefined } | string {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return "not an object";
  const { [resource]: records, ...fields }: Fields = { ...body };
  if (!Array.isArray(records)) return "array of records missing";
  const { length } = records;
  // `count` may be absent: the interface does not say that it is required.
  if (![undefined, length, String(length)].some((one) => one === fields["count"]))
    return "count is not the number of records";
  if (serviceId !== undefined && length !== 1) return "more or fewer than one record";
  if (serviceId !== undefined && !isRecord(records[0], serviceId))
    return "another record than the one asked for";
  const ids: unknown[] = records.map((record) => Object(record).serviceId);
  const totalCount = wholeIn(fields["totalCount"]);
  const limit = wholeIn(fields["limit"]);
  const isPage = serviceId === undefined && totalCount !== undefined;
  return {
    recordIds: ids.filter((id) => typeof id === "number" || typeof id === "string").map(String),
    page: isPage ? { totalCount, count: length, ...(limit !== undefined && { limit }) } : undefined,
  };
}

/** The record's id may also be absent. If it is present, it must be the requested one. */
function isRecord(record: unknown, serviceId: string): boolean {
  if (typeof record !== "object" || record === null) return false;
  const id: unknown = Reflect.get(record, "serviceId");
  // `JSON.parse` rounds large numbers, and `Number` rounds them in the same way.
  return id === undefined || id === serviceId || id === Number(serviceId);
}

function wholeIn(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined;
}
