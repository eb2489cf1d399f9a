/**
 * The upstream's resources, addresses and limits as data (interface, sections 2, 4 and 8).
 */

/** Resources searched with query parameters; the name is also the envelope's array key (section 2.7). */
export const SEARCH_RESOURCES = ["listings", "sold", "areas"] as const;
export type SearchResource = (typeof SEARCH_RESOURCES)[number];

/** Resources of which one record can be shown by its id (section 4). */
export const RECORD_RESOURCES = ["listings", "sold"] as const;
export type RecordResource = (typeof RECORD_RESOURCES)[number];

/** Everything the gateway answers for. Also the closed set of the metric label `resource`. */
export const RESOURCES = [...SEARCH_RESOURCES, "images"] as const;
export type Resource = (typeof RESOURCES)[number];

/** The two addresses of the upstream, each with a budget of its own (sections 1 and 4.5). */
export const ORIGINS = ["api", "images"] as const;
export type OriginName = (typeof ORIGINS)[number];

/** @returns the address that serves a resource */
export function originOf(resource: Resource): OriginName {
  return resource === "images" ? "images" : "api";
}

/** Thumbnail limits in pixels (sections 4.5 and 8). */
export const MAX_IMAGE_WIDTH = 140;
export const MAX_IMAGE_HEIGHT = 94;

/** Thumbnail path: `/cache/primary_<serviceId>_<width>x<height>.jpg` (section 4.5). */
export const IMAGE_PATH = /^\/cache\/primary_([^_/]+)_([^x_/]+)x([^x_/]+)\.jpg$/;

/** @returns the thumbnail's path at the upstream's image address (section 4.5). */
export function imagePath(serviceId: string, width: number, height: number): string {
  return `/cache/primary_${serviceId}_${width}x${height}.jpg`;
}

export function isSearchResource(name: string): name is SearchResource {
  return (SEARCH_RESOURCES as readonly string[]).includes(name);
}

export function isRecordResource(name: string): name is RecordResource {
  return (RECORD_RESOURCES as readonly string[]).includes(name);
}
