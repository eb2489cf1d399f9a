/** The headers of the callers' port (docs/http.md). */
import type { DocumentedParameter, Json } from "./shapes.ts";

const TEXT: Json = { type: "string" };
const WHOLE: Json = { type: "integer", minimum: 0 };
const REQUEST_ID = "261ecd2e-4689-4210-8735-34326b2fe440";
const CACHE_STATUS = 'property-gateway; hit; ttl=120; key="areas?q=Nacka"; detail=memory';
const ETAG = '"QoDzQ3Exi0JNuNlmQsx2ks"';
const MODIFIED = "Sat, 21 Nov 2026 07:00:00 GMT";
const LINK = '<?areaId=76&limit=50&offset=50>; rel="next"';

const matching = (pattern: string): Json => ({ ...TEXT, pattern });

const header = (description: string, example: string | number, schema: Json = TEXT) => ({
  description,
  schema,
  example,
});

/** A header that is present in every response that lists it. */
const always = (...described: Parameters<typeof header>) => ({ ...header(...described), required: true });

/** The response headers. */
export const RESPONSE_HEADERS = {
  "X-Request-Id": always(
    "The caller's id of the request, or a new one.",
    REQUEST_ID,
    matching("^[A-Za-z0-9_.:/+=@-]{1,128}$"),
  ),
  "Cache-Status": always(
    "How the cache handled the request (RFC 9211).",
    CACHE_STATUS,
    matching("^property-gateway(; .*)?$"),
  ),
  Age: always("The answer's true age in seconds.", 180, WHOLE),
  "Cache-Control": header("How long the answer may be kept; `no-store`: not at all.", "max-age=120"),
  ETag: header("Changes when the answer does.", ETAG),
  "Last-Modified": header("As the property service sent it.", MODIFIED),
  Vary: header("The request headers on which the answer depends.", "Accept, Accept-Encoding"),
  "Content-Encoding": header("The coding of the body.", "br", { ...TEXT, enum: ["gzip", "br", "zstd"] }),
  "RateLimit-Policy": header("The app's share of each window of the budget.", '"1m";q=60;w=60'),
  RateLimit: header("What is left of the app's share, and when more becomes available.", '"1m";r=57;t=34'),
  Link: header("The next page of the list and the one before (RFC 8288).", LINK),
  "Preference-Applied": header("The preference that shortened the deadline.", "wait=2"),
  "Retry-After": header("Seconds to wait before the next try.", 30, WHOLE),
  Allow: header("The methods that the path accepts.", "GET, HEAD"),
};

/** References to the headers. Those without `required` are not in every response. */
export const HEADER_REFS: Json = Object.fromEntries(
  Object.keys(RESPONSE_HEADERS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

/**
 * @param appIdHeader the header that names the app (`server.appIdHeader`)
 * @returns the request headers, by their names in `components.parameters`
 */
export function requestHeadersOf(appIdHeader: string): Record<string, DocumentedParameter> {
  const one = (name: string, ...described: Parameters<typeof header>): DocumentedParameter => ({
    name,
    in: "header",
    ...header(...described),
  });
  const app = "The app of the request. The default is the first product in User-Agent.";
  const id = "An id for the logs. The gateway creates one if it is absent or has other characters.";
  const since = "Answers 304 if the answer has not changed since then. Ignored with If-None-Match.";
  const milliseconds = matching(String.raw`^0*[1-9]\d{0,8}$`);
  return {
    AppId: one(appIdHeader, app, "web"),
    RequestId: one("X-Request-Id", id, "checkout-4711"),
    Deadline: one("X-Request-Deadline-Ms", "Answer within this many milliseconds.", "2000", milliseconds),
    Prefer: one("Prefer", "`wait`: answer within this many seconds (RFC 7240).", "wait=2"),
    CacheControl: one("Cache-Control", "Which cached answers are acceptable (RFC 9111).", "max-stale=60"),
    IfNoneMatch: one("If-None-Match", "Answers 304 if the answer still has this ETag.", ETAG),
    IfModifiedSince: one("If-Modified-Since", since, MODIFIED),
  };
}
