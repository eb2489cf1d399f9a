/**
 * Routes a path to a resource. It does not read query parameters.
 */
import {
  IMAGE_PATH,
  isRecordResource,
  isSearchResource,
  SEARCH_RESOURCES,
  type RecordResource,
  type Resource,
  type SearchResource,
} from "../interface/resources.ts";
import { nearest } from "../interface/intended-name.ts";
import { encode } from "./wire.ts";

/** The target of a path. Ids and sizes are still as the caller wrote them. */
export type Route =
  | { readonly kind: "search"; readonly resource: SearchResource }
  | { readonly kind: "record"; readonly resource: RecordResource; readonly serviceId: string }
  | {
      readonly kind: "image";
      readonly resource: "images";
      readonly serviceId: string;
      readonly width: string;
      readonly height: string;
    }
  | { readonly kind: "streamed"; readonly resource: Resource; readonly path: string }
  | { readonly kind: "unknown"; readonly near?: string };

export interface RouteOptions {
  /** The path of one record, with the placeholders `{resource}` and `{serviceId}` (`upstream.recordPath`). */
  readonly recordPath: string;
  /**
   * Patterns of paths to pass through (`upstream.passThrough`). `{name}` matches one segment, a final `*` matches one or
   * more.
   */
  readonly passThrough: readonly string[];
}

/** @returns a function from a percent-encoded path to its route */
export function createRouter(options: RouteOptions): (path: string) => Route {
  const recordSegments = segmentsOf(options.recordPath);
  const streamedPatterns = options.passThrough.map(segmentsOf);

  return function route(path) {
    const segments = decodeSegments(path);
    if (segments === undefined) return { kind: "unknown" };
    const [first = "", ...below] = segments;

    if (below.length === 0 && isSearchResource(first)) return { kind: "search", resource: first };
    const record = recordRoute(recordSegments, segments);
    const streamed = streamedRoute(streamedPatterns, segments);
    // `/listings/statistics` may be passed through, although it has the form of a record's path.
    const isRecord = record !== undefined && (streamed === undefined || NUMERIC.test(record.serviceId));
    return imageRoute(segments) ?? (isRecord ? record : streamed) ?? unknownRoute(first);
  };
}

const NUMERIC = /^\s*\+?\d/;

/** Splits a path. Empty segments (doubled and trailing slashes) are ignored. */
function segmentsOf(path: string): string[] {
  return path.split("/").filter((segment) => segment !== "");
}

/** @returns `undefined` if a segment is malformed, is `.` or `..`, or contains an encoded slash */
function decodeSegments(path: string): string[] | undefined {
  if (!path.isWellFormed()) return undefined;
  const decoded: string[] = [];
  for (const segment of segmentsOf(path)) {
    let text: string;
    try {
      text = decodeURIComponent(segment);
    } catch {
      return undefined;
    }
    if (text === "." || text === ".." || /[/\\]/.test(text)) return undefined;
    decoded.push(text);
  }
  return decoded;
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  const open = pattern.at(-1) === "*";
  const lengthFits = open ? segments.length >= pattern.length : segments.length === pattern.length;
  return (
    lengthFits &&
    pattern.every((part, index) => part === "*" || part.startsWith("{") || part === segments[index])
  );
}

function imageRoute(segments: readonly string[]): Route | undefined {
  const match = IMAGE_PATH.exec(`/${segments.join("/")}`);
  if (!match) return undefined;
  const [, serviceId = "", width = "", height = ""] = match;
  return { kind: "image", resource: "images", serviceId, width, height };
}

function recordRoute(
  pattern: readonly string[],
  segments: readonly string[],
): Extract<Route, { kind: "record" }> | undefined {
  if (!matches(pattern, segments)) return undefined;
  const resource = segments[pattern.indexOf("{resource}")] ?? "";
  const serviceId = segments[pattern.indexOf("{serviceId}")] ?? "";
  return isRecordResource(resource) ? { kind: "record", resource, serviceId } : undefined;
}

function streamedRoute(
  patterns: readonly (readonly string[])[],
  segments: readonly string[],
): Route | undefined {
  const resource = segments[0] ?? "";
  if (!isSearchResource(resource) || !patterns.some((pattern) => matches(pattern, segments)))
    return undefined;
  return { kind: "streamed", resource, path: `/${segments.map(encode).join("/")}` };
}

function unknownRoute(first: string): Route {
  const near = nearest(first, SEARCH_RESOURCES);
  return near === undefined ? { kind: "unknown" } : { kind: "unknown", near: `/${near}` };
}

/** @returns the upstream's path of one record, from the template in the settings */
export function recordPathOf(template: string, resource: RecordResource, serviceId: string): string {
  return template.replace("{resource}", resource).replace("{serviceId}", serviceId);
}
