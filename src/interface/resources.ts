/**
 * The upstream's resources, addresses and limits as data (interface, sections 2, 4 and 8).
 */

/** Resources that can be searched. The name is also the key of the array in the envelope (section 2.7). */
export const SEARCH_RESOURCES = ["listings", "sold", "areas"] as const;
export type SearchResource = (typeof SEARCH_RESOURCES)[number];

/** Resources whose records can be requested by id (section 4). */
export const RECORD_RESOURCES = ["listings", "sold"] as const;
export type RecordResource = (typeof RECORD_RESOURCES)[number];

/** All resources; the closed set of the metric label `resource`. */
export const RESOURCES = [...SEARCH_RESOURCES, "images"] as const;
export type Resource = (typeof RESOURCES)[number];

/** The two addresses of the upstream, each with its own budget (sections 1 and 4.5). */
export const ORIGINS = ["api", "images"] as const;
export type OriginName = (typeof ORIGINS)[number];

/** @returns the address that serves a resource */
export function originOf(resource: Resource): OriginName {
  return resource === "images" ? "images" : "api";
}

/** @returns whether an answer says that the upstream refuses the key (section 5). Thumbnails are fetched without it (section 4.5). */
export function refusesKey(status: number | string, resource: Resource): boolean {
  return (status === 401 || status === 403) && resource !== "images";
}

/** @returns the resources that an address serves */
export function resourcesOf(origin: OriginName): Resource[] {
  return RESOURCES.filter((one) => originOf(one) === origin);
}

/** The largest thumbnail, in pixels (sections 4.5 and 8). */
export const MAX_IMAGE_WIDTH = 140;
export const MAX_IMAGE_HEIGHT = 94;

/** The path of a thumbnail: `/cache/primary_<serviceId>_<width>x<height>.jpg` (section 4.5). */
export const IMAGE_PATH = /^\/cache\/primary_(?<serviceId>[^_/]+)_(?<width>[^x_/]+)x(?<height>[^x_/]+)\.jpg$/;

/** @returns the path of a thumbnail (section 4.5) */
export function imagePath(serviceId: string, width: string, height: string): string {
  return `/cache/primary_${serviceId}_${width}x${height}.jpg`;
}
