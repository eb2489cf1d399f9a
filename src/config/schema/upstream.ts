import * as z from "zod";

import { optional, setting } from "./setting.ts";
import { duration, integer, oneOf } from "./number-shapes.ts";
import {
  baseUrl,
  headerUrl,
  headerValue,
  mediaTypeToken,
  optionalPath,
  passThroughPath,
  pixelSize,
  proxyUrl,
  recordPath,
  secretFile,
  text,
} from "./text-shapes.ts";

/** How the gateway calls the property API. */
export const upstream = z.strictObject({
  url: setting(baseUrl(), {
    required: true,
    env: "UPSTREAM_URL",
    description: "The base address of the property API.",
  }),
  imageUrl: setting(baseUrl(), {
    required: true,
    env: "UPSTREAM_IMAGE_URL",
    description: "The base address of the thumbnails.",
  }),
  caFile: setting(optionalPath("file"), {
    env: "UPSTREAM_CA_FILE",
    description: "A PEM file with the certificate authorities for https, in place of Node's own.",
  }),
  proxy: z.strictObject({
    https: setting(proxyUrl(), {
      env: "HTTPS_PROXY",
      description: "The HTTP proxy for upstream addresses that begin with https. https_proxy works, too.",
    }),
    http: setting(proxyUrl(), {
      env: "HTTP_PROXY",
      description: "The HTTP proxy for upstream addresses that begin with http. http_proxy works, too.",
    }),
    except: setting(optional(text()), {
      env: "NO_PROXY",
      description:
        "Hosts that are reached without the proxy, as this machine always is, separated by commas: names, .suffixes, addresses, or *. no_proxy works, too.",
    }),
  }),
  service: setting(mediaTypeToken(), {
    required: true,
    env: "UPSTREAM_SERVICE",
    description: "The API's neutral media-type name, as in application/vnd.NAME-v2+json.",
  }),
  callerId: setting(text(), {
    required: true,
    env: "UPSTREAM_CALLER_ID",
    description: "Your caller id at the API.",
  }),
  privateKeyFile: setting(secretFile(), {
    env: "UPSTREAM_PRIVATE_KEY_FILE",
    secretEnv: "UPSTREAM_PRIVATE_KEY",
    description:
      "The path of a file that holds only your private key at the API. Set either this or UPSTREAM_PRIVATE_KEY.",
  }),
  previousKeyForMs: setting(duration({ minMs: 0 }), {
    default: "10m",
    description:
      "How long the previous private key is kept after a new one is set. When the API refuses one of the two, the call is tried once with the other.",
  }),
  userAgent: setting(headerValue(), {
    required: true,
    env: "UPSTREAM_USER_AGENT",
    description: "The User-Agent header of calls. It names your company.",
  }),
  referrer: setting(headerUrl(), {
    required: true,
    env: "UPSTREAM_REFERRER",
    description: "The Referrer and Referer headers of calls: the address of your site.",
  }),
  recordPath: setting(recordPath(), {
    default: "/{resource}/{serviceId}",
    description: "The path at which the API serves one record.",
  }),
  passThrough: setting(z.array(passThroughPath()), {
    default: [],
    expected: "a list of paths below /listings, /sold or /areas",
    description:
      "Further paths that the gateway passes on without caching. {name} matches one segment, a final * matches any rest.",
  }),
});

/** What happens to query parameters. */
export const query = z.strictObject({
  unknown: setting(oneOf("reject", "forward"), {
    default: "reject",
    description:
      "What happens to parameters that the interface does not define. reject: 400. forward: they are sent to the API.",
  }),
  allow: setting(z.array(text()), {
    default: [],
    expected: "a list of parameter names",
    description: "Parameters that are sent to the API although the interface does not define them.",
  }),
  ignore: setting(z.array(text()), {
    default: ["_", "format", "utm_*", "fbclid", "gclid"],
    expected: "a list of parameter names, or of their beginnings as in utm_*",
    description: "Parameters that are dropped. An asterisk at the end stands for any rest of a name.",
  }),
  maxLimit: setting(integer(500, 100_000), {
    default: 500,
    description: "The largest limit of a search. Raise it only if the API's owner has granted more.",
  }),
  maxImageSize: setting(pixelSize(), {
    default: "140x94",
    description: "The largest thumbnail. Raise it only if the API's owner has granted more.",
  }),
});
