/**
 * The addresses of the callers' port as data. Express routes requests by them, and `createRouter` routes other URLs, such as
 * those on the warm list. Nothing here reads query parameters.
 */
import type { Config } from "../config/config.ts";
import {
  IMAGE_PATH,
  RECORD_RESOURCES,
  SEARCH_RESOURCES,
  type SearchResource,
} from "../interface/resources.ts";
import { nearest } from "../interface/intended-name.ts";
import type { ImageTarget, RecordTarget, StreamedTarget } from "./query.ts";
import { decoded, encode } from "./wire.ts";

/** The target of a path. Ids and sizes are still as the caller wrote them. */
export type KnownRoute =
  | { readonly kind: "search"; readonly resource: SearchResource }
  | RecordTarget
  | ImageTarget
  | StreamedTarget;

/** `near`: the address that the caller may have meant. */
type UnknownRoute = { readonly kind: "unknown"; readonly near?: string };

export type Route = KnownRoute | UnknownRoute;

/** `recordPath` has the placeholders `{resource}` and `{serviceId}`. In `passThrough`, `{name}` matches one segment, and a final `*` one or more. */
export type RouteOptions = Pick<Config["upstream"], "recordPath" | "passThrough">;

/** The named groups of an address' pattern, decoded. */
type Parts = Readonly<Record<string, string | undefined>>;

/** An address of the callers' port. */
export interface Address {
  /** Matches normalised paths. */
  readonly pattern: RegExp;
  readonly routeOf: (parts: Parts, path: string) => KnownRoute;
}

const ID = "(?<serviceId>[^/]+)";
/** A number, perhaps with blanks and a plus sign before it. */
const NUMBER = "(?<serviceId>(?:%20)*(?:%2B)?\\d[^/]*)";

/** @returns all addresses. The first one whose pattern matches a path counts. */
export function addressesOf({ recordPath, passThrough }: RouteOptions): readonly Address[] {
  const searches = SEARCH_RESOURCES.map((resource): Address => {
    return { pattern: patternOf(`/${resource}`), routeOf: () => ({ kind: "search", resource }) };
  });
  const image: Address = {
    pattern: IMAGE_PATH,
    routeOf: ({ serviceId = "", width = "", height = "" }) => {
      return { kind: "image", resource: "images", serviceId, width, height };
    },
  };
  const recordsWith = (id: string): Address[] =>
    RECORD_RESOURCES.map((resource) => ({
      pattern: patternOf(recordPath, { resource, serviceId: id }),
      routeOf: ({ serviceId = "" }) => ({ kind: "record", resource, serviceId }),
    }));
  const streams = SEARCH_RESOURCES.flatMap((resource) =>
    passThrough.map((template): Address => {
      const pattern = patternOf(template, {}, `(?=/${resource}(?:/|$))`);
      return { pattern, routeOf: (_parts, path) => ({ kind: "streamed", resource, path }) };
    }),
  );
  // `/listings/statistics` may be passed through, although it has the form of a record's path. A number is a record's id.
  return [...searches, image, ...recordsWith(NUMBER), ...streams, ...recordsWith(ID)];
}

/**
 * @param template a path. A placeholder matches one segment, and a final `*` one or more
 * @param parts the patterns of some placeholders
 * @param condition what else the path must match
 */
function patternOf(template: string, parts: Readonly<Record<string, string>> = {}, condition = ""): RegExp {
  const segments = segmentsOf(template).map((segment, at, all) => {
    if (segment === "*") return at === all.length - 1 ? ".+" : "[^/]+";
    if (segment.startsWith("{")) return parts[segment.slice(1, -1)] ?? "[^/]+";
    return encode(segment).replaceAll(/[.()]/g, String.raw`\$&`);
  });
  return new RegExp(`^${condition}/${segments.join("/")}$`);
}

/** @returns a function from a percent-encoded path to its route */
export function createRouter(options: RouteOptions): (path: string) => Route {
  const addresses = addressesOf(options);
  return function route(path) {
    const normalised = normalisedPath(path);
    for (const { pattern, routeOf } of addresses) {
      const match = normalised === undefined ? null : pattern.exec(normalised);
      if (match) return routeOf(decodedParts(match.groups), match[0]);
    }
    return unknownRoute(path);
  };
}

function decodedParts(groups: Parts = {}): Parts {
  return Object.fromEntries(
    Object.entries(groups).map(([name, text = ""]) => [name, decodeURIComponent(text)]),
  );
}

/** @returns where a path leads that is none of the addresses: nowhere, perhaps near one */
export function unknownRoute(path: string): UnknownRoute {
  const [first = ""] = segmentsOf(normalisedPath(path) ?? "");
  const near = nearest(first, SEARCH_RESOURCES);
  return near === undefined ? { kind: "unknown" } : { kind: "unknown", near: `/${near}` };
}

/** Splits a path. Empty segments (doubled and trailing slashes) are ignored. */
function segmentsOf(path: string): string[] {
  return path.split("/").filter((segment) => segment !== "");
}

/**
 * @returns the path with one spelling for each address: without empty segments, and encoded in one way; `undefined` if a
 *   segment is malformed, is `.` or `..`, or contains an encoded slash
 */
export function normalisedPath(path: string): string | undefined {
  const encoded: string[] = [];
  for (const segment of segmentsOf(path)) {
    const text = decoded(segment);
    if (text === undefined || text === "." || text === ".." || /[/\\]/.test(text)) return undefined;
    encoded.push(encode(text));
  }
  return `/${encoded.join("/")}`;
}

/** @returns the upstream's path of one record, from the template in the settings */
export function recordPathOf(template: string, resource: string, serviceId: string): string {
  return template.replace("{resource}", resource).replace("{serviceId}", serviceId);
}
