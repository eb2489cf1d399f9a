/**
 * Creates the body of a narrower search from the blocks of a broader one. The records are copied byte for byte. The
 * envelope is that of the broader search with other numbers, and its `searchParams` repeats the added filters.
 *
 * How the upstream writes these filters is not documented. The form below is an assumption. It is used only after enough
 * answers of the upstream had this form (trust.ts).
 */
import { PARAMETERS } from "../../interface/parameters.ts";
import type { Pair } from "../../query/query.ts";
import type { BlockIndex, FoldedResource } from "../block-index.ts";
import { type Patch, patched } from "../cut.ts";
import { eachMember, MALFORMED, type Range, textAt } from "../json-ranges.ts";

/** A block with its bytes. */
export interface BlockBytes {
  readonly body: Buffer;
  readonly index: BlockIndex;
}

/** @returns the bytes of a record */
export function recordBytes({ body, index }: BlockBytes, at: number): Buffer {
  return body.subarray(index.starts[at], index.ends[at]);
}

export interface DerivedBody {
  readonly resource: FoldedResource;
  /** The first block of the broader search. */
  readonly first: BlockBytes;
  readonly added: readonly Pair[];
  /** The records of the narrower search. */
  readonly records: readonly Buffer[];
  /** The limit that the envelope names; at least as many as there are records. */
  readonly limit: number;
}

/** @returns the body of all results in one block; `undefined` if the envelope cannot be known */
export function derivedBody({ resource, first, added, records, limit }: DerivedBody): Buffer | undefined {
  const { body, index } = first;
  // If `searchParams` also repeats the limit or offset, the place of the added filters in it is unknown.
  if (index.numbers.length !== 3) return undefined;
  const echo = index.echo && echoWith(textAt(body, index.echo), resource, added);
  if (index.echo !== undefined && echo === undefined) return undefined;
  const numbers = { count: records.length, limit, offset: 0 };
  const patches: Patch[] = [
    { at: index.totalCountAt, by: digits(records.length) },
    ...index.numbers.map(({ what, at }) => ({ at, by: digits(numbers[what]) })),
    recordsPatch(first, records),
  ];
  if (index.echo !== undefined && echo !== undefined)
    patches.push({ at: index.echo, by: Buffer.from(echo, "latin1") });
  return patched(body, patches);
}

function digits(count: number): Buffer {
  return Buffer.from(String(count), "latin1");
}

function recordsPatch({ body, index }: BlockBytes, records: readonly Buffer[]): Patch {
  const { starts, ends, inside } = index;
  const [start, end] = [starts[0], ends.at(-1)];
  if (start === undefined || end === undefined) return { at: inside, by: inside };
  if (records.length === 0) return { at: inside, by: Buffer.alloc(0) };
  const [separatorAt, separatorEnd] = [ends[0], starts[1]];
  const separator = separatorEnd === undefined ? Buffer.from(",") : body.subarray(separatorAt, separatorEnd);
  const pieces = records.flatMap((record, nth) => (nth === 0 ? [record] : [separator, record]));
  return { at: { start, end }, by: Buffer.concat(pieces) };
}

/** The names of the parameters in an echo; `undefined` if it is not an object as expected. */
export function namesInEcho(echo: string): readonly string[] | undefined {
  return membersInEcho(echo)?.map(({ name }) => name);
}

interface EchoMember {
  readonly name: string;
  /** The member as written, including its name. */
  readonly text: string;
}

function membersInEcho(echo: string): EchoMember[] | undefined {
  if (echo === "[]") return [];
  const bytes = Buffer.from(echo, "latin1");
  const members: EchoMember[] = [];
  const end = eachMember(bytes, 0, (nameAt: Range, valueAt: Range) => {
    const text = textAt(bytes, { start: nameAt.start - 1, end: valueAt.end });
    members.push({ name: textAt(bytes, nameAt), text });
  });
  // White space would be lost, so an echo that contains some is not used.
  const written = `{${members.map(({ text }) => text).join(",")}}`;
  return end === MALFORMED || written !== echo ? undefined : members;
}

function echoWith(echo: string, resource: FoldedResource, added: readonly Pair[]): string | undefined {
  const members = membersInEcho(echo);
  if (members === undefined) return undefined;
  const order = PARAMETERS[resource].map(({ name }) => name);
  for (const [name, value] of added) {
    const place = order.indexOf(name);
    const next = members.findIndex((member) => order.indexOf(member.name) > place);
    members.splice(next === -1 ? members.length : next, 0, { name, text: `"${name}":${echoed(value)}` });
  }
  return `{${members.map(({ text }) => text).join(",")}}`;
}

/** A value as PHP writes it into JSON: a number if it looks like one. */
function echoed(value: string): string {
  if (/^-?\d{1,15}(?:\.\d+)?$/.test(value)) return value;
  return JSON.stringify(value).replaceAll(/[/\u0080-\uffff]/g, (unit) =>
    unit === "/" ? "\\/" : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The form of a value, such as `0`, `0.0` or `a,ä`. The upstream may write values of each form in a different way. */
export function formOf(value: string): string {
  return value
    .replaceAll(/\d+/g, "0")
    .replaceAll(/[a-z-]*[\u0080-\uffff][^,]*/g, "ä")
    .replaceAll(/[a-z][a-z-]*/g, "a");
}
