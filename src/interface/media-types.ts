/**
 * The formats of the upstream's answers (interface, section 9).
 */

/** `json`: JSON without a version; `v2`: JSON in version 2; `jpeg`: a thumbnail. */
export type Format = "json" | "v2" | "jpeg";

/**
 * The media type of a format, for the `Accept` header.
 * @param service the service's neutral media-type name (`<service>` in section 9)
 */
export function mediaTypeOf(format: Format, service: string): string {
  return { json: "application/json", v2: `application/vnd.${service}-v2+json`, jpeg: "image/jpeg" }[format];
}

/** A document in one media type, ready to be sent. */
export interface TypedText {
  readonly type: string;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}
