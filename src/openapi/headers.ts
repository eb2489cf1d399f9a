/** The response headers of the callers' port (docs/http.md). */
import type { Json } from "./shapes.ts";

const text = (description: string, example: string, more: Json = {}): Json => ({
  description,
  schema: { type: "string" },
  example,
  ...more,
});

/** Headers that are always present in the responses that list them are `required`. */
export const RESPONSE_HEADERS: Readonly<Record<string, Json>> = {
  "X-Request-Id": text(
    "The caller's id of the request, or a new one.",
    "261ecd2e-4689-4210-8735-34326b2fe440",
    {
      required: true,
      schema: { type: "string", pattern: "^[A-Za-z0-9_.:/+=@-]{1,128}$" },
    },
  ),
  "Cache-Status": text(
    "How the cache handled the request (RFC 9211).",
    'property-gateway; hit; ttl=120; key="areas?q=Nacka"; detail=memory',
    { required: true, schema: { type: "string", pattern: "^property-gateway(; .*)?$" } },
  ),
  Age: {
    description: "The answer's true age in seconds.",
    required: true,
    schema: { type: "integer", minimum: 0 },
    example: 180,
  },
  "Cache-Control": text("How long the answer may be kept; `no-store` for problems.", "max-age=120"),
  ETag: text("Changes when the answer does.", '"QoDzQ3Exi0JNuNlmQsx2ks"'),
  "Last-Modified": text("As the property service sent it.", "Sat, 21 Nov 2026 07:00:00 GMT"),
  Vary: text("The request headers on which the answer depends.", "Accept, Accept-Encoding"),
  "Content-Encoding": text("The coding of the body.", "br", {
    schema: { type: "string", enum: ["gzip", "br", "zstd"] },
  }),
  "RateLimit-Policy": text("The app's share of each window of the budget.", '"1m";q=60;w=60'),
  RateLimit: text("What is left of the app's share, and when more becomes available.", '"1m";r=57;t=34'),
  Link: text(
    "The next page of the list and the one before (RFC 8288).",
    '<?areaId=76&limit=50&offset=50>; rel="next"',
  ),
  "Preference-Applied": text("The preference that shortened the deadline.", "wait=2"),
  "Retry-After": {
    description: "Seconds to wait before the next try.",
    schema: { type: "integer", minimum: 0 },
    example: 30,
  },
  Allow: text("The methods that the path accepts.", "GET, HEAD"),
};

/** @returns references to headers of `components.headers` */
export function headerRefs(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
