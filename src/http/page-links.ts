/** The `Link` header of a page of a list: the next page and the one before (RFC 8288). */
import type { Entry, Question } from "../types.ts";
import { canonicalForm } from "../query/canonical.ts";

/** Many clients refuse longer headers. */
const LONGEST = 4_096;

/**
 * The links are relative: a question mark and the canonical query without credentials, so that they lead to the address
 * that the caller used.
 * @returns `undefined` if there is no other page, or nothing is known of the list
 */
export function pageLinks({ query }: Pick<Question, "query">, { page }: Entry): string | undefined {
  if (page === undefined || query.kind !== "search" || query.offset === undefined) return undefined;
  const { offset } = query;
  const { totalCount, count } = page;
  const step = query.limit ?? page.limit ?? count;
  const targetAt = (other: number): string => {
    const form = canonicalForm({ ...query, offset: other });
    return form.slice(form.indexOf("?"));
  };
  const links: string[] = [];
  // The service may send fewer records than it was asked for.
  if (count > 0 && offset + count < totalCount) links.push(`<${targetAt(offset + count)}>; rel="next"`);
  if (offset > 0 && step > 0) {
    const before = Math.max(0, Math.min(offset, totalCount) - step);
    links.push(`<${targetAt(before)}>; rel="prev"`);
  }
  const header = links.join(", ");
  return header === "" || header.length > LONGEST ? undefined : header;
}
