import * as z from "zod";

import * as shape from "./shapes.ts";
import { optional, setting } from "./setting.ts";

/** How the gateway calls the property API. */
export const upstream = z.strictObject({
  url: setting(shape.baseUrl, "The base address of the property API.", {
    required: true,
    env: "UPSTREAM_URL",
  }),
  imageUrl: setting(shape.baseUrl, "The base address of the thumbnails.", {
    required: true,
    env: "UPSTREAM_IMAGE_URL",
  }),
  caFile: setting(
    shape.optionalPath,
    "A PEM file with the certificate authorities for https, in place of Node's own.",
    { env: "UPSTREAM_CA_FILE" },
  ),
  proxy: z.strictObject({
    https: setting(
      shape.proxyUrl,
      "The HTTP proxy for upstream addresses that begin with https. https_proxy works, too.",
      { env: "HTTPS_PROXY" },
    ),
    http: setting(
      shape.proxyUrl,
      "The HTTP proxy for upstream addresses that begin with http. http_proxy works, too.",
      { env: "HTTP_PROXY" },
    ),
    except: setting(
      optional(shape.text),
      "Hosts that are reached without the proxy, as this machine always is, separated by commas: names, .suffixes, addresses, or *. no_proxy works, too.",
      { env: "NO_PROXY" },
    ),
  }),
  service: setting(
    shape.mediaTypeToken,
    "The API's neutral media-type name, as in application/vnd.NAME-v2+json.",
    {
      required: true,
      env: "UPSTREAM_SERVICE",
    },
  ),
  callerId: setting(shape.text, "Your caller id at the API.", { required: true, env: "UPSTREAM_CALLER_ID" }),
  privateKeyFile: setting(
    shape.secretFile,
    "The path of a file that holds only your private key at the API. Set either this or UPSTREAM_PRIVATE_KEY.",
    { env: "UPSTREAM_PRIVATE_KEY_FILE", secretEnv: "UPSTREAM_PRIVATE_KEY" },
  ),
  previousKeyForMs: setting(
    shape.duration({ minMs: 0 }),
    "How long the previous private key is kept after a new one is set. When the API refuses one of the two, the call is tried once with the other.",
    { default: "10m" },
  ),
  userAgent: setting(shape.headerValue, "The User-Agent header of calls. It names your company.", {
    required: true,
    env: "UPSTREAM_USER_AGENT",
  }),
  referrer: setting(shape.headerUrl, "The Referrer and Referer headers of calls: the address of your site.", {
    required: true,
    env: "UPSTREAM_REFERRER",
  }),
  recordPath: setting(shape.recordPath, "The path at which the API serves one record.", {
    default: "/{resource}/{serviceId}",
  }),
  passThrough: setting(
    z.array(shape.passThroughPath),
    "Further paths that the gateway passes on without caching. {name} matches one segment, a final * matches any rest.",
    { default: [], expected: "a list of paths below /listings, /sold or /areas" },
  ),
});

/** What happens to query parameters. */
export const query = z.strictObject({
  unknown: setting(
    shape.oneOf("reject", "forward"),
    "What happens to parameters that the interface does not define. reject: 400. forward: they are sent to the API.",
    { default: "reject" },
  ),
  allow: setting(
    z.array(shape.text),
    "Parameters that are sent to the API although the interface does not define them.",
    { default: [], expected: "a list of parameter names" },
  ),
  ignore: setting(
    z.array(shape.text),
    "Parameters that are dropped. An asterisk at the end stands for any rest of a name.",
    {
      default: ["_", "format", "utm_*", "fbclid", "gclid"],
      expected: "a list of parameter names, or of their beginnings as in utm_*",
    },
  ),
  maxLimit: setting(
    shape.integer(500, 100_000),
    "The largest limit of a search. Raise it only if the API's owner has granted more.",
    { default: 500 },
  ),
  maxImageSize: setting(
    shape.pixelSize,
    "The largest thumbnail. Raise it only if the API's owner has granted more.",
    { default: "140x94" },
  ),
});
