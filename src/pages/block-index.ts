/**
 * Finds the records of a list answer, and the numbers that depend on the page, in the answer's bytes.
 *
 * If a page could only be cut from an answer by guessing, the answer has no index. The rules are strict, because a page
 * that costs a call is better than a wrong one.
 */
import { MAX_LIMIT, PARAMETERS } from "../interface/parameters.ts";
import { eachElement, eachMember, type Range, skipSpace, textAt, Unreadable } from "./json-ranges.ts";

/** The resources whose pages are cut from blocks: those whose searches have an offset. */
export type PagedResource = "listings" | "sold";

/** A contiguous part of a search's results. */
export interface Stretch {
  readonly offset: number;
  readonly limit: number;
}

/** Why no page can be cut from an answer. */
export type Unfit = string;

export type BlockIndex = Readonly<Exclude<ReturnType<typeof indexBlock>, Unfit>>;

export interface PageNumber {
  readonly what: "count" | "limit" | "offset";
  /** Its digits. */
  readonly at: Range;
}

/** The request to the upstream. */
interface BlockPlace {
  readonly resource: PagedResource;
  readonly offset: number;
  /** Absent: the one that the answer names. */
  readonly limit: number | undefined;
}

/** Finds the records and the page's numbers in a list answer. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types
export function indexBlock(body: Buffer, { resource, offset, ...asked }: BlockPlace) {
  try {
    const envelope = readEnvelope(body, resource);
    const records = readRecords(body, envelope.records);
    const echo = envelope.echo === undefined ? [] : readEcho(body, envelope.echo, resource);
    const totalCount = integerIn(body, envelope.totalCount) ?? Number.NaN;
    const limit = asked.limit ?? integerIn(body, envelope.limit) ?? Number.NaN;
    const count = Math.max(0, Math.min(limit, totalCount - offset));
    const expected = { limit, offset, count };
    const numbers: PageNumber[] = [
      { what: "count", at: envelope.count },
      { what: "limit", at: envelope.limit },
      { what: "offset", at: envelope.offset },
      ...echo,
    ];
    const fits = numbers.every(({ what, at }) => integerIn(body, at) === expected[what]);
    if (!fits || records.starts.length !== count)
      throw new Unreadable("the numbers of the envelope do not fit");
    return {
      offset,
      limit,
      ...records,
      totalCount,
      /** The numbers that differ from page to page, in the order of their positions. */
      numbers: numbers.toSorted((one, other) => one.at.start - other.at.start),
      /** Whether `searchParams` repeats the limit. */
      echoesLimit: echo.some(({ what }) => what === "limit"),
    };
  } catch (error) {
    if (error instanceof Unreadable) return error.message;
    throw error;
  }
}

/** @returns where each field of a list answer is (interface, section 2.7); `searchParams` may be missing */
function readEnvelope(body: Buffer, resource: PagedResource) {
  const fields = new Map<string, Range>();
  let isStrange = false;
  const end = eachMember(body, skipSpace(body, 0), (nameAt, value) => {
    const name = textAt(body, nameAt);
    // The interface calls it `offset` in its text and `offSet` in its samples.
    const field = name === "offSet" ? "offset" : name;
    isStrange ||= fields.has(field) || (!ENVELOPE_FIELDS.has(field) && field !== resource);
    fields.set(field, value);
  });
  if (skipSpace(body, end) !== body.length) throw new Unreadable();
  if (isStrange) throw new Unreadable("a field of the envelope is not known");
  const [totalCount, count, limit, offset] = NUMBERS.map((name) => fields.get(name));
  const records = fields.get(resource);
  if (!totalCount || !count || !limit || !offset || !records)
    throw new Unreadable("a field of the envelope is missing");
  return { totalCount, count, limit, offset, records, echo: fields.get("searchParams") };
}

const NUMBERS = ["totalCount", "count", "limit", "offset"];
const ENVELOPE_FIELDS = new Set([...NUMBERS, "searchParams"]);

function readRecords(body: Buffer, { start, end }: Range) {
  const starts: number[] = [];
  const ends: number[] = [];
  const arrayEnd = eachElement(body, start, (record) => {
    starts.push(record.start);
    ends.push(record.end);
  });
  if (arrayEnd !== end) throw new Unreadable();
  return {
    /** Where each record begins and ends. */
    starts: Uint32Array.from(starts),
    ends: Uint32Array.from(ends),
    /** Between the brackets of the array. */
    inside: { start: start + 1, end: end - 1 },
  };
}

/** Finds the limit and offset that `searchParams` repeats. All other members must be documented parameters. */
function readEcho(body: Buffer, echo: Range, resource: PagedResource): PageNumber[] {
  // PHP writes an object without members as an empty array.
  if (/^\[\s*\]$/.test(textAt(body, echo))) return [];
  const numbers: PageNumber[] = [];
  let isStrange = false;
  const objectEnd = eachMember(body, echo.start, (nameAt, value) => {
    const name = textAt(body, nameAt);
    const what = name === "offSet" ? "offset" : name;
    if (what === "limit" || what === "offset") numbers.push({ what, at: withoutQuotes(body, value) });
    else if (!PARAMETERS[resource].some((parameter) => parameter.name === name)) isStrange = true;
  });
  if (objectEnd !== echo.end) throw new Unreadable();
  const isDouble = new Set(numbers.map(({ what }) => what)).size !== numbers.length;
  if (isStrange || isDouble) throw new Unreadable("searchParams has an undocumented parameter, or one twice");
  return numbers;
}

function withoutQuotes(body: Buffer, { start, end }: Range): Range {
  return body[start] === 0x22 ? { start: start + 1, end: end - 1 } : { start, end };
}

/** @returns a whole number written without sign, fraction or leading zeros */
function integerIn(body: Buffer, at: Range): number | undefined {
  const text = textAt(body, at);
  return /^(?:0|[1-9]\d{0,14})$/.test(text) ? Number(text) : undefined;
}

/** A block has as many records as the API allows. @returns the block that contains all of a page, if there is one */
export function blockAround({ offset, limit }: Stretch, size = MAX_LIMIT): Stretch | undefined {
  const block = blockAt(offset, size);
  return offset + limit <= block.offset + size ? block : undefined;
}

/** @returns the block that contains the result at the offset */
export function blockAt(offset: number, size = MAX_LIMIT): Stretch {
  return { offset: offset - (offset % size), limit: size };
}
