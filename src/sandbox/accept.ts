/**
 * Reads what a request accepts (interface, section 9).
 */
import { mediaTypeOf } from "../interface/media-types.ts";

interface Offer {
  readonly name: string;
  readonly quality: number;
}

/** Reads `a;q=0.5, b` as names in lower case with their quality. Refused types (`q=0`) are left out. */
function readOffers(header: string): Offer[] {
  return header
    .split(",")
    .map((item) => {
      const [name = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
      const quality = parameters.find((parameter) => parameter.startsWith("q="));
      return { name, quality: quality === undefined ? 1 : Number(quality.slice(2)) };
    })
    .filter((offer) => offer.name !== "" && offer.quality > 0);
}

/**
 * The media type of the answer: the unversioned one or version 2, as requested. Wildcards get the unversioned one.
 * @returns `undefined` if the header is missing or asks for something else (406)
 */
export function acceptedType(header: string | undefined, service: string): string | undefined {
  const json = mediaTypeOf("json", service);
  const answers = new Map([
    [json, json],
    [mediaTypeOf("v2", service).toLowerCase(), mediaTypeOf("v2", service)],
    ["application/*", json],
    ["*/*", json],
  ]);
  const known = readOffers(header ?? "").filter((offer) => answers.has(offer.name));
  const best = known.sort((one, other) => other.quality - one.quality)[0];
  return best && answers.get(best.name);
}

/** Whether an `Accept-Encoding` header accepts gzip. */
export function acceptsGzip(header: string | undefined): boolean {
  return readOffers(header ?? "").some(({ name }) => name === "gzip" || name === "x-gzip");
}
