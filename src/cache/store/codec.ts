/**
 * The stored form of an entry: one binary value with a versioned header, a checksum and the body in one
 * coding. Any other value reads as a miss, never as an error.
 *
 * | bytes | what                                                              |
 * |-------|-------------------------------------------------------------------|
 * | 0-3   | `PGE` and the format version                                      |
 * | 4-7   | CRC-32 of everything after it, big-endian                         |
 * | 8-15  | when it was stored, epoch milliseconds, big-endian; lua/set-entry.lua compares it |
 * | 16-19 | length of the header, big-endian                                  |
 * | 20-   | header: JSON, UTF-8                                               |
 * | rest  | the body, in the coding that the header names                     |
 */
import { crc32 } from "node:zlib";

import type { ContentCoding, Entry } from "../../types.ts";

const MAGIC = Buffer.from("PGE\u0002", "latin1");
const STORED_AT_OFFSET = 8;
const HEADER_LENGTH_AT = 16;
const HEADER_AT = 20;

/** The codings a body may be stored in, the smallest first. */
const STORED_CODINGS: readonly ContentCoding[] = ["zstd", "br", "gzip", "identity"];

/** The change rate is called `pace` in the stored form; a new name would make every stored entry unreadable. */
type Header = Omit<Entry, "bodies" | "changeRate"> & {
  readonly coding: ContentCoding;
  readonly pace: Entry["changeRate"];
};

/**
 * @returns the blob of an entry, with the smallest of its bodies
 * @throws if the entry has no body, or only a packed one
 */
export function toBlob(entry: Entry): Buffer {
  const { bodies, changeRate: pace, ...fields } = entry;
  const coding = STORED_CODINGS.find((candidate) => bodies[candidate] !== undefined);
  const body = coding && bodies[coding];
  if (coding === undefined || body === undefined)
    throw new Error("An entry without a body cannot be stored.");
  const header = Buffer.from(JSON.stringify({ ...fields, pace, coding } satisfies Header));
  const blob = Buffer.allocUnsafe(HEADER_AT + header.length + body.length);
  MAGIC.copy(blob, 0);
  blob.writeBigUInt64BE(BigInt(entry.storedAt), STORED_AT_OFFSET);
  blob.writeUInt32BE(header.length, HEADER_LENGTH_AT);
  header.copy(blob, HEADER_AT);
  body.copy(blob, HEADER_AT + header.length);
  blob.writeUInt32BE(crc32(blob.subarray(STORED_AT_OFFSET)), 4);
  return blob;
}

/** @returns the entry, or `undefined` when the blob is of another version, truncated or damaged */
export function fromBlob(blob: Buffer): Entry | undefined {
  if (blob.length < HEADER_AT || !blob.subarray(0, MAGIC.length).equals(MAGIC)) return undefined;
  if (crc32(blob.subarray(STORED_AT_OFFSET)) !== blob.readUInt32BE(4)) return undefined;
  const bodyAt = HEADER_AT + blob.readUInt32BE(HEADER_LENGTH_AT);
  // The checksum proves that toBlob wrote it.
  const header = parseHeader(blob.toString("utf8", HEADER_AT, bodyAt));
  if (header === undefined) return undefined;
  const { coding, pace: changeRate, ...fields } = header;
  const { etag, lastModified } = fields.validators;
  // JSON has no `undefined`.
  return {
    ...fields,
    changeRate,
    validators: { etag, lastModified },
    bodies: { [coding]: blob.subarray(bodyAt) },
  };
}

function parseHeader(text: string): Header | undefined {
  const parsed: unknown = JSON.parse(text);
  return isHeader(parsed) ? parsed : undefined;
}

function isHeader(value: unknown): value is Header {
  return typeof value === "object" && value !== null && "coding" in value && "validators" in value;
}
