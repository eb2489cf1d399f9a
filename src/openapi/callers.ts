/**
 * The OpenAPI document of the callers' port, generated from the tables that validate requests: parameters, resources and
 * problems.
 */
import { mediaTypeOf } from "../interface/media-types.ts";
import { PARAMETERS } from "../interface/parameters.ts";
import { ENVELOPE_SCHEMAS, RECORD_SCHEMAS } from "../interface/records.ts";
import { RECORD_RESOURCES, SEARCH_RESOURCES, type SearchResource } from "../interface/resources.ts";
import { HEADER_REFS, requestHeadersOf, RESPONSE_HEADERS } from "./headers.ts";
import { PROBLEM_REFS, PROBLEM_RESPONSES, PROBLEM_SCHEMA } from "./problems.ts";
import { type DocumentedParameter, type Json, parameterOf } from "./shapes.ts";

export interface CallersDocumentOptions {
  readonly version: string;
  /** The service's neutral media-type name (`upstream.service`). */
  readonly service: string;
  /** Path of one record, with `{resource}` and `{serviceId}` (`upstream.recordPath`). */
  readonly recordPath: string;
  /** Header that names the app (`server.appIdHeader`). */
  readonly appIdHeader: string;
  /** The largest page size and thumbnail (settings of `query`). */
  readonly maxLimit: number;
  readonly maxImageSize: { readonly width: number; readonly height: number };
}

/** An operation, always GET. */
export type Operation = ReturnType<typeof operationsOf>[number];

export const TITLE = "Property gateway";

export const INTRODUCTION = `Listings, sold properties, areas and thumbnails, answered from a cache or by one call to the property service.

Use GET, or HEAD for the headers alone; other methods get 405 with \`Allow\`. Name your app in the app id header and in
\`User-Agent\`. After a response with \`Retry-After\`, wait for that many seconds before the next request. \`RateLimit\` shows what
is left of your app's share. Every error is a problem (RFC 9457) with a stable \`type\` and a remedy.

The terms of the property service bind your app: show the service's logo wherever you use its data, and show no pictures but
the thumbnails.`;

const TAGS = {
  listings: "Properties for sale.",
  sold: "Sold properties.",
  areas: "Areas, whose ids are the `areaId` of searches.",
  images: "Thumbnails of listings.",
  document: "This document.",
} as const;

export function createCallersDocument(options: CallersDocumentOptions): Json {
  const requestHeaders = requestHeadersOf(options.appIdHeader);
  const headers = Object.keys(requestHeaders).map((name) => ({ $ref: `#/components/parameters/${name}` }));
  const schemas = SEARCH_RESOURCES.map((resource) => [RECORDS[resource].schema, RECORD_SCHEMAS[resource]]);
  return {
    openapi: "3.1.1",
    info: {
      title: TITLE,
      version: options.version,
      description: INTRODUCTION,
      contact: { name: "The operators of this gateway" },
      license: { name: "For the company's own apps", identifier: "LicenseRef-internal" },
    },
    servers: [{ url: "/" }],
    // A token is needed only for app ids that have one.
    security: [{}, { AppToken: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: Object.fromEntries(operationsOf(options).map((one) => [one.path, pathItem(one, headers)])),
    components: {
      schemas: { Problem: PROBLEM_SCHEMA, ...Object.fromEntries(schemas) },
      headers: RESPONSE_HEADERS,
      parameters: requestHeaders,
      responses: PROBLEM_RESPONSES,
      securitySchemes: { AppToken: APP_TOKEN },
    },
  };
}

const APP_TOKEN: Json = {
  type: "http",
  scheme: "bearer",
  description: "The token of the app id, if the operators gave it one.",
};

function pathItem(
  { name, tag, summary, description, parameters, content }: Operation,
  headers: readonly Json[],
): Json {
  return {
    parameters: [...parameters, ...headers],
    get: {
      operationId: name,
      tags: [tag],
      summary,
      description,
      responses: {
        200: { description: "The answer.", headers: HEADER_REFS, content },
        304: { description: "The caller already has the current answer.", headers: HEADER_REFS },
        ...PROBLEM_REFS,
      },
    },
  };
}

/** The records of each resource in words, and the id of one that the sandbox has. */
const RECORDS = {
  listings: { schema: "Listing", one: "a listing", all: "listings", id: 4000116 },
  sold: { schema: "SoldRecord", one: "a sold property", all: "sold properties", id: 1004110 },
  areas: { schema: "Area", one: "an area", all: "areas", id: 76 },
} as const;

const LINK = ' While there is another page, the header `Link` has its address with `rel="next"`.';

/** @returns all operations of the callers' port */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function operationsOf(options: CallersDocumentOptions) {
  const { service, recordPath, maxLimit, maxImageSize } = options;
  return [
    ...SEARCH_RESOURCES.map((resource) => ({
      path: `/${resource}`,
      name: `search${resource.charAt(0).toUpperCase()}${resource.slice(1)}`,
      tag: resource,
      summary: `Searches ${RECORDS[resource].all}`,
      description: `All parameters are optional. \`totalCount\` says how many records match.${resource === "areas" ? "" : LINK}`,
      parameters: PARAMETERS[resource].map((parameter) => parameterOf(parameter, maxLimit)),
      content: records(resource, service, true),
    })),
    ...RECORD_RESOURCES.map((resource) => ({
      path: recordPath.replace("{resource}", resource),
      name: `show${RECORDS[resource].schema}`,
      tag: resource,
      summary: `Shows ${RECORDS[resource].one}`,
      description: "The answer is a list with one record. An id without a record gets 404.",
      parameters: [inPath("serviceId", "Id of the record.", RECORDS[resource].id, { minimum: 0 })],
      content: records(resource, service, false),
    })),
    {
      path: "/cache/primary_{serviceId}_{width}x{height}.jpg",
      name: "showThumbnail",
      tag: "images",
      summary: "Shows the thumbnail of a listing",
      description: "A JPEG that fits into the given size. Apps may show no other pictures of a property.",
      parameters: [
        inPath("serviceId", "Id of the listing.", RECORDS.listings.id, { minimum: 0 }),
        inPath("width", "Pixels.", 140, { minimum: 1, maximum: maxImageSize.width }),
        inPath("height", "Pixels.", 94, { minimum: 1, maximum: maxImageSize.height }),
      ],
      content: { "image/jpeg": {} },
    },
    {
      path: "/openapi.json",
      name: "showDocument",
      tag: "document",
      summary: "Shows the OpenAPI document",
      description: "Generate a client from it, or read it at `/docs`.",
      parameters: [],
      content: { "application/json": { schema: { type: "object", title: "An OpenAPI document" } } },
    },
  ];
}

/** @returns the content of an answer: an object with a list of records, which is a page of a search or one record */
function records(resource: SearchResource, service: string, isPage: boolean): Json {
  const items = { $ref: `#/components/schemas/${RECORDS[resource].schema}` };
  const list = { type: "array", items, ...(!isPage && { minItems: 1, maxItems: 1 }) };
  const schema = {
    type: "object",
    required: isPage ? [resource, "totalCount", "count"] : [resource],
    properties: { ...(isPage && ENVELOPE_SCHEMAS), [resource]: list },
  };
  return { [mediaTypeOf("json", service)]: { schema }, [mediaTypeOf("v2", service)]: { schema } };
}

function inPath(name: string, description: string, example: number, bounds: Json): DocumentedParameter {
  return { name, in: "path", required: true, description, schema: { type: "integer", ...bounds }, example };
}
