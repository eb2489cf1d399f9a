/**
 * Answers one request from the data set: routes, methods, authentication, formats (interface, sections 4 to 9).
 */
import {
  MAX_IMAGE_HEIGHT,
  MAX_IMAGE_WIDTH,
  RECORD_RESOURCES,
  type RecordResource,
  SEARCH_RESOURCES,
  type SearchResource,
} from "../interface/resources.ts";
import { acceptedType } from "./accept.ts";
import type { Authenticator } from "./auth.ts";
import type { Validators } from "./types.ts";
import type { PropertyRow, SandboxData } from "./dataset/model.ts";
import { listBody, type OffsetSpelling, singleBody } from "./envelope.ts";
import { jpegWith } from "./jpeg.ts";
import { revisedRecord, revisedRow, type Revisions, type Revised } from "./dataset/revisions.ts";
import { search } from "./search.ts";
import { BadParameter } from "./values.ts";

export interface Question {
  readonly method: string;
  readonly path: string;
  readonly params: URLSearchParams;
  readonly accept: string | undefined;
  /** The sandbox's clock, skew included. */
  readonly nowSeconds: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** When the data behind it last changed, epoch milliseconds. Only proper answers (200) have it. */
  readonly changedAt?: number;
}

/** The source of answers. Members that are not read-only may change between requests. */
export interface Source {
  readonly data: SandboxData;
  readonly service: string;
  readonly authenticator: Authenticator;
  readonly revisions: Revisions;
  offsetSpelling: OffsetSpelling;
  validators: Validators;
}

const THUMBNAIL = /^primary_(\d+)_(\d+)x(\d+)\.jpg$/;

/** A short explanation in plain text, as the upstream sends with most errors (section 7). */
export function explained(status: number, text: string, headers: Record<string, string> = {}): Answer {
  return {
    status,
    headers: { "Content-Type": "text/plain; charset=utf-8", ...headers },
    body: Buffer.from(text),
  };
}

function unknownAddress(): Answer {
  return explained(404, "FAILURE_NOT_FOUND - no such resource");
}

/** Section 4.5: no authentication. Every listing and sold record has a picture. All pictures look the same. */
function answerThumbnail(file: string, data: SandboxData, { revision, changedAt }: Revised): Answer {
  const [, id, width, height] = (THUMBNAIL.exec(file) ?? []).map(Number);
  if (id === undefined || width === undefined || height === undefined) return unknownAddress();
  if (width < 1 || height < 1 || width > MAX_IMAGE_WIDTH || height > MAX_IMAGE_HEIGHT) {
    return explained(400, `FAILURE_INVALID_SIZE - at most ${MAX_IMAGE_WIDTH}x${MAX_IMAGE_HEIGHT} pixels`);
  }
  if (!data.listingById.has(id) && !data.soldById.has(id)) return unknownAddress();
  const body = jpegWith(`${file}, revision ${revision}`);
  return { status: 200, headers: { "Content-Type": "image/jpeg" }, body, changedAt };
}

function findRow(data: SandboxData, resource: RecordResource, id: string): PropertyRow | undefined {
  const rows = resource === "listings" ? data.listingById : data.soldById;
  return /^\d{1,15}$/.test(id) ? rows.get(Number(id)) : undefined;
}

function isSearchResource(name: string): name is SearchResource {
  return SEARCH_RESOURCES.some((one) => one === name);
}

function isRecordResource(name: string): name is RecordResource {
  return RECORD_RESOURCES.some((one) => one === name);
}

/** The body for an address; `undefined` if there is nothing. */
function bodyAt(
  parts: readonly string[],
  params: URLSearchParams,
  source: Source,
  revision: number,
): string | undefined {
  const [resource = "", id] = parts;
  if (!isSearchResource(resource) || parts.length > 2) return undefined;
  if (id === undefined) {
    const found = search(source.data, resource, params);
    const records = found.records.map((record) => revisedRecord(record, revision));
    return listBody(resource, { ...found, records }, source.offsetSpelling);
  }
  if (!isRecordResource(resource)) return undefined;
  const row = findRow(source.data, resource, id);
  return row && singleBody(resource, revisedRow(row, revision));
}

/**
 * Answers a question. It reports the first mistake in this order: address (404), method (405), authentication (403),
 * `Accept` (406), then an unknown record (404) or a malformed value (400).
 */
export function answer(question: Question, source: Source): Answer {
  const parts = question.path.split("/").filter((part) => part !== "");
  const [first = ""] = parts;
  const isImage = first === "cache" && parts.length === 2;
  if (!isImage && !isSearchResource(first)) return unknownAddress();
  if (question.method !== "GET") {
    return explained(405, "FAILURE_METHOD_NOT_ALLOWED - only GET is allowed", { Allow: "GET" });
  }
  const revised = source.revisions.of(`/${parts.join("/")}`);
  if (isImage) return answerThumbnail(parts[1] ?? "", source.data, revised);
  const refusal = source.authenticator.refusal(question.params, question.nowSeconds);
  // The real upstream refuses with plain text under the JSON type.
  if (refusal) return explained(403, refusal, { "Content-Type": "application/json" });
  const type = acceptedType(question.accept, source.service);
  if (!type) return explained(406, "FAILURE_NOT_ACCEPTABLE - give the format in the Accept header");
  try {
    const body = bodyAt(parts, question.params, source, revised.revision);
    if (body === undefined) return unknownAddress();
    const { changedAt } = revised;
    return { status: 200, headers: { "Content-Type": type }, body: Buffer.from(body), changedAt };
  } catch (error) {
    if (error instanceof BadParameter) return explained(400, error.message);
    throw error;
  }
}

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
 * Rewrites the body of a proper answer with the same meaning: members in reverse order, with white space, and without
 * the upstream's escapes. Other bodies are returned unchanged.
 */
export function respelled({ headers, body, changedAt }: Answer): Buffer {
  if (changedAt === undefined || headers["Content-Type"] === "image/jpeg") return body;
  return Buffer.from(`${JSON.stringify(reversed(JSON.parse(body.toString())), undefined, 1)}\n`);
}
