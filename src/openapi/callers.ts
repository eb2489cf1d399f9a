/**
 * The OpenAPI document of the callers' port, generated from the tables that validate requests: parameters, resources and
 * problems.
 */
import { mediaTypeOf } from "../interface/media-types.ts";
import { PARAMETERS } from "../interface/parameters.ts";
import { ENVELOPE_SCHEMAS, RECORD_SCHEMAS } from "../interface/records.ts";
import {
  RECORD_RESOURCES,
  type RecordResource,
  SEARCH_RESOURCES,
  type SearchResource,
} from "../interface/resources.ts";
import { headerRefs, RESPONSE_HEADERS } from "./headers.ts";
import { type Json, OPENAPI_VERSION, parameterOf } from "./shapes.ts";
import { problemName, PROBLEM_SCHEMA, problemResponses, problemStatuses } from "./problems.ts";

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

const INTRODUCTION = `Listings, sold properties, areas and thumbnails, answered from a cache or by one call to the property service.

Use GET, or HEAD for the headers alone; other methods get 405 with \`Allow\`. Name your app in the app id header and in
\`User-Agent\`. After a response with \`Retry-After\`, wait for that many seconds before the next request. \`RateLimit\` shows what
is left of your app's share. Every error is a problem (RFC 9457) with a stable \`type\` and a remedy.

The terms of the property service bind your app: show the service's logo wherever you use its data, and show no pictures but
the thumbnails.`;

export function createCallersDocument(options: CallersDocumentOptions): Json {
  return {
    openapi: OPENAPI_VERSION,
    info: {
      title: "Property gateway",
      version: options.version,
      description: INTRODUCTION,
      contact: { name: "The operators of this gateway" },
      license: { name: "For the company's own apps", identifier: "LicenseRef-internal" },
    },
    servers: [{ url: "/" }],
    // A token is needed only for app ids that have one.
    security: [{}, { AppToken: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: {
      ...Object.fromEntries(
        SEARCH_RESOURCES.map((resource) => [`/${resource}`, searchPath(resource, options)]),
      ),
      ...Object.fromEntries(
        RECORD_RESOURCES.map((resource) => [
          options.recordPath.replace("{resource}", resource),
          recordPath(resource, options),
        ]),
      ),
      "/cache/primary_{serviceId}_{width}x{height}.jpg": imagePath(options),
      "/openapi.json": documentPath(),
    },
    components: {
      schemas: {
        Problem: PROBLEM_SCHEMA,
        ...Object.fromEntries(SEARCH_RESOURCES.map((name) => [recordName(name), RECORD_SCHEMAS[name]])),
      },
      headers: RESPONSE_HEADERS,
      parameters: requestHeadersOf(options.appIdHeader),
      responses: problemResponses(),
      securitySchemes: {
        AppToken: {
          type: "http",
          scheme: "bearer",
          description: "The token of the app id, if the operators gave it one.",
        },
      },
    },
  };
}

const TAGS = {
  listings: "Properties for sale.",
  sold: "Sold properties.",
  areas: "Areas, whose ids are the `areaId` of searches.",
  images: "Thumbnails of listings.",
  document: "This document.",
} as const;

/** @returns the name of a resource's schema, which is also part of the names of operations */
function recordName(resource: SearchResource): string {
  return { listings: "Listing", sold: "SoldRecord", areas: "Area" }[resource];
}

const NOUNS = { listings: "listings", sold: "sold properties", areas: "areas" } as const;

const LINK = ' While there is another page, the header `Link` has its address with `rel="next"`.';

function searchPath(resource: SearchResource, { service, maxLimit }: CallersDocumentOptions): Json {
  const schema = {
    type: "object",
    required: [resource, "totalCount", "count"],
    properties: { ...ENVELOPE_SCHEMAS, [resource]: recordsOf(resource) },
  };
  return pathItem({
    name: `search${capitalized(resource)}`,
    tag: resource,
    summary: `Searches ${NOUNS[resource]}`,
    description: `All parameters are optional. \`totalCount\` says how many records match.${resource === "areas" ? "" : LINK}`,
    parameters: PARAMETERS[resource].map((parameter) => parameterOf(parameter, maxLimit)),
    content: jsonContent(schema, service),
  });
}

/** Records that the sandbox has. */
const EXAMPLE_IDS = { listings: 4000116, sold: 1004110 } as const;

function recordPath(resource: RecordResource, { service }: CallersDocumentOptions): Json {
  const schema = {
    type: "object",
    required: [resource],
    properties: { [resource]: { ...recordsOf(resource), minItems: 1, maxItems: 1 } },
  };
  return pathItem({
    name: `show${recordName(resource)}`,
    tag: resource,
    summary: `Shows ${resource === "sold" ? "a sold property" : "a listing"}`,
    description: "The answer is a list with one record. An id without a record gets 404.",
    parameters: [
      pathParameter("serviceId", "Id of the record.", { type: "integer", minimum: 0 }, EXAMPLE_IDS[resource]),
    ],
    content: jsonContent(schema, service),
  });
}

function imagePath({ maxImageSize: { width, height } }: CallersDocumentOptions): Json {
  return pathItem({
    name: "showThumbnail",
    tag: "images",
    summary: "Shows the thumbnail of a listing",
    description: "A JPEG that fits into the given size. Apps may show no other pictures of a property.",
    parameters: [
      pathParameter("serviceId", "Id of the listing.", { type: "integer", minimum: 0 }, 4000116),
      pathParameter("width", "Pixels.", { type: "integer", minimum: 1, maximum: width }, 140),
      pathParameter("height", "Pixels.", { type: "integer", minimum: 1, maximum: height }, 94),
    ],
    content: { "image/jpeg": {} },
  });
}

function documentPath(): Json {
  return pathItem({
    name: "showDocument",
    tag: "document",
    summary: "Shows the OpenAPI document",
    description: "Generate a client from it, or read it at `/docs`.",
    parameters: [],
    content: { "application/json": { schema: { type: "object", title: "An OpenAPI document" } } },
  });
}

function recordsOf(resource: SearchResource): Json {
  return { type: "array", items: { $ref: `#/components/schemas/${recordName(resource)}` } };
}

function jsonContent(schema: Json, service: string): Json {
  return { [mediaTypeOf("json", service)]: { schema }, [mediaTypeOf("v2", service)]: { schema } };
}

function pathParameter(name: string, description: string, schema: Json, example: number): Json {
  return { name, in: "path", required: true, description, schema, example };
}

interface Operation {
  readonly name: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Json[];
  readonly content: Json;
}

/** All but those of refusals. */
const ANSWER_HEADERS = headerRefs(
  Object.keys(RESPONSE_HEADERS).filter((name) => name !== "Retry-After" && name !== "Allow"),
);

function pathItem({ name, tag, summary, description, parameters, content }: Operation): Json {
  const problems = problemStatuses().map((status) => [
    status,
    { $ref: `#/components/responses/${problemName(status)}` },
  ]);
  return {
    parameters: [
      ...parameters,
      ...Object.keys(requestHeadersOf("")).map((header) => ({ $ref: `#/components/parameters/${header}` })),
    ],
    get: {
      operationId: name,
      tags: [tag],
      summary,
      description,
      responses: {
        200: { description: "The answer.", headers: ANSWER_HEADERS, content },
        304: { description: "The caller already has the current answer.", headers: ANSWER_HEADERS },
        ...Object.fromEntries(problems),
      },
    },
  };
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function requestHeadersOf(appIdHeader: string): Record<string, Json> {
  const header = (name: string, description: string, example: string, schema: Json = {}): Json => ({
    name,
    in: "header",
    description,
    schema: { type: "string", ...schema },
    example,
  });
  return {
    AppId: header(
      appIdHeader,
      "The app of the request. The default is the first product in User-Agent.",
      "web",
    ),
    RequestId: header(
      "X-Request-Id",
      "An id for the logs. The gateway creates one if it is absent or has other characters.",
      "checkout-4711",
    ),
    Deadline: header("X-Request-Deadline-Ms", "Answer within this many milliseconds.", "2000", {
      pattern: String.raw`^0*[1-9]\d{0,8}$`,
    }),
    Prefer: header("Prefer", "`wait`: answer within this many seconds (RFC 7240).", "wait=2"),
    CacheControl: header("Cache-Control", "Which cached answers are acceptable (RFC 9111).", "max-stale=60"),
    IfNoneMatch: header(
      "If-None-Match",
      "Answers 304 if the answer still has this ETag.",
      '"QoDzQ3Exi0JNuNlmQsx2ks"',
    ),
    IfModifiedSince: header(
      "If-Modified-Since",
      "Answers 304 if the answer has not changed since then. Ignored with If-None-Match.",
      "Sat, 21 Nov 2026 07:00:00 GMT",
    ),
  };
}
