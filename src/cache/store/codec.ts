/**
 * The stored form of an entry: one binary value with a versioned header, an authentication code and the body in one
 * coding. Any other value reads as a miss, never as an error.
 *
 * | bytes | what                                                              |
 * |-------|-------------------------------------------------------------------|
 * | 0-3   | `PGE` and the format version                                      |
 * | 4-11  | when it was stored, epoch milliseconds, big-endian; lua/set-entry.lua compares it |
 * | 12-43 | the authentication code of the key and of everything else         |
 * | 44-47 | length of the header, big-endian                                  |
 * | 48-   | header: JSON, UTF-8                                               |
 * | rest  | the body, in the coding that the header names                     |
 */
import { SEAL_BYTES, type Seal } from "../../process/seal.ts";
import type { ContentCoding } from "../../content-codings.ts";
import { isCompressible, transcode } from "../encoder.ts";
import type { Entry } from "../entry.ts";

/** Increase the version when the shape of the header changes. Values of other versions are misses. */
const MAGIC = Buffer.from("PGE\u0003", "latin1");
const STORED_AT = 4;
const CODE_AT = 12;
const HEADER_LENGTH_AT = CODE_AT + SEAL_BYTES;
const HEADER_AT = HEADER_LENGTH_AT + 4;

/** A longer value is not an entry. The upstream's answers are much smaller (`upstream.maxBodyBytes`). */
export const MAX_BLOB_BYTES = 17 * 1024 * 1024;

type Header = Omit<Entry, "bodies" | "served"> & { readonly coding: ContentCoding };

/** @returns the blob of an entry, with one body, compressed if that is worth it */
export async function toBlob(key: string, entry: Entry, seal: Seal): Promise<Buffer> {
  const { bodies: _, served: __, ...fields } = entry;
  const coding = isCompressible(entry) ? "zstd" : "identity";
  const body = await transcode(entry, coding);
  const header = Buffer.from(JSON.stringify({ ...fields, coding } satisfies Header));
  const blob = Buffer.alloc(HEADER_AT + header.length + body.length);
  MAGIC.copy(blob);
  blob.writeBigUInt64BE(BigInt(entry.storedAt), STORED_AT);
  blob.writeUInt32BE(header.length, HEADER_LENGTH_AT);
  header.copy(blob, HEADER_AT);
  body.copy(blob, HEADER_AT + header.length);
  seal.codeOf(key, blob).copy(blob, CODE_AT);
  return blob;
}

/** @returns the entry; `undefined` if the blob is of another version, shape or key, or not written by a gateway with the same seal */
export function fromBlob(key: string, blob: Buffer, seal: Seal): Entry | undefined {
  if (blob.length < HEADER_AT || blob.length > MAX_BLOB_BYTES) return undefined;
  if (!blob.subarray(0, MAGIC.length).equals(MAGIC)) return undefined;
  // The code was made while its own place was empty.
  const code = Buffer.from(blob.subarray(CODE_AT, HEADER_LENGTH_AT));
  blob.fill(0, CODE_AT, HEADER_LENGTH_AT);
  if (!seal.isValid(key, blob, code)) return undefined;
  const bodyAt = HEADER_AT + blob.readUInt32BE(HEADER_LENGTH_AT);
  try {
    // A gateway wrote it in this version of the format, so its shape is right.
    const { coding, ...fields }: Header = JSON.parse(blob.toString("utf8", HEADER_AT, bodyAt));
    return { ...fields, bodies: { [coding]: blob.subarray(bodyAt) }, served: { count: 0 } };
  } catch {
    return undefined;
  }
}
