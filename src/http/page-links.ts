/** The `Link` header of a page of a list: the next and the previous page (RFC 8288). Pure. */
import type { Entry } from "../cache/entry.ts";
import type { Question } from "../query/request.ts";

/** Many clients refuse longer headers. */
const LONGEST_LINKS = 4_096;

/**
 * The links are relative, so that they use the address that the caller used. They contain the canonical query, which has
 * no credentials.
 * @returns `undefined` if there is no other page, or if the answer does not describe its page
 */
export function pageLinks({ query, canonicalQuery }: Question, { page }: Entry): string | undefined {
  if (page === undefined || query.kind !== "search" || query.offset === undefined) return undefined;
  const { offset } = query;
  const { totalCount, count } = page;
  const step = page.limit || query.limit || count;
  // The offset is the last parameter of a canonical query.
  const target = canonicalQuery.slice(canonicalQuery.indexOf("?"), canonicalQuery.lastIndexOf("=") + 1);
  const links: string[] = [];
  // The upstream may send fewer records than the request asked for.
  if (count > 0 && offset + count < totalCount) links.push(`<${target}${offset + count}>; rel="next"`);
  if (offset > 0 && step > 0) {
    const previous = Math.max(0, Math.min(offset, totalCount) - step);
    links.push(`<${target}${previous}>; rel="prev"`);
  }
  const header = links.join(", ");
  return header === "" || header.length > LONGEST_LINKS ? undefined : header;
}
