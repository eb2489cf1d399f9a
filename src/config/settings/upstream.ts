import * as z from "zod";

import { MAX_LIMIT } from "../../interface/parameters.ts";
import { MAX_IMAGE_HEIGHT, MAX_IMAGE_WIDTH } from "../../interface/resources.ts";
import * as shape from "./shapes.ts";
import { optional, setting } from "./setting.ts";

/** How the gateway calls the property API. */
export const upstream = z.strictObject({
  /** The base address of the property API. */
  url: setting(shape.baseUrl, { required: true, env: "UPSTREAM_URL" }),
  /** The base address of the thumbnails. */
  imageUrl: setting(shape.baseUrl, { required: true, env: "UPSTREAM_IMAGE_URL" }),
  /** A PEM file with the certificate authorities for https, in place of Node's own. */
  caFile: setting(shape.optionalPath, { env: "UPSTREAM_CA_FILE" }),
  proxy: z.strictObject({
    /** The HTTP proxy for upstream addresses that begin with https. https_proxy works, too. */
    https: setting(shape.proxyUrl, { env: "HTTPS_PROXY" }),
    /** The HTTP proxy for upstream addresses that begin with http. http_proxy works, too. */
    http: setting(shape.proxyUrl, { env: "HTTP_PROXY" }),
    /**
     * Hosts that are reached without the proxy, as this machine always is, separated by commas: names, .suffixes,
     * addresses, or *. no_proxy works, too.
     */
    except: setting(optional(shape.text), { env: "NO_PROXY" }),
  }),
  /** The API's neutral media-type name, as in application/vnd.NAME-v2+json. */
  service: setting(shape.mediaTypeToken, { required: true, env: "UPSTREAM_SERVICE" }),
  /** Your caller id at the API. */
  callerId: setting(shape.text, { required: true, env: "UPSTREAM_CALLER_ID" }),
  /** The path of a file that holds only your private key at the API. Set either this or UPSTREAM_PRIVATE_KEY. */
  privateKeyFile: shape.secretFile("key", "UPSTREAM_PRIVATE_KEY"),
  /**
   * How long the previous private key is kept after a new one is set. When the API refuses one of the two, the call is
   * tried once with the other.
   */
  previousKeyForMs: setting(shape.duration({ minMs: 0 }), { default: "10m" }),
  /** The User-Agent header of calls. It names your company. */
  userAgent: setting(shape.headerValue, { required: true, env: "UPSTREAM_USER_AGENT" }),
  /** The Referrer and Referer headers of calls: the address of your site. */
  referrer: setting(shape.headerUrl, { required: true, env: "UPSTREAM_REFERRER" }),
  /** The path at which the API serves one record. */
  recordPath: setting(shape.recordPath, { default: "/{resource}/{serviceId}" }),
  /** Further paths that the gateway passes on without caching. {name} matches one segment, a final * matches any rest. */
  passThrough: shape.listOf(shape.passThroughPath, "paths below /listings, /sold or /areas"),
});

/** What happens to query parameters. */
export const query = z.strictObject({
  /** What happens to parameters that the interface does not define. reject: 400. forward: they are sent to the API. */
  unknown: setting(shape.oneOf("reject", "forward"), { default: "reject" }),
  /** Parameters that are sent to the API although the interface does not define them. */
  allow: shape.listOf(shape.text, "parameter names"),
  /** Parameters that are dropped. An asterisk at the end stands for any rest of a name. */
  ignore: setting(shape.listOf(shape.text, "parameter names, or of their beginnings as in utm_*"), {
    default: ["_", "format", "utm_*", "fbclid", "gclid"],
  }),
  /** The largest limit of a search. Raise it only if the API's owner has granted more. */
  maxLimit: setting(shape.integer(MAX_LIMIT, 100_000), { default: MAX_LIMIT }),
  /** The largest thumbnail. Raise it only if the API's owner has granted more. */
  maxImageSize: setting(shape.pixelSize, { default: `${MAX_IMAGE_WIDTH}x${MAX_IMAGE_HEIGHT}` }),
});
