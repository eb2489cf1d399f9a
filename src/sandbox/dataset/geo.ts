/** Distances on a plane, precise enough for Sweden. A degree of longitude shrinks with the cosine of the latitude. */
export const METRES_PER_DEGREE = 111_320;

export interface Point {
  readonly latitude: number;
  readonly longitude: number;
}

/** The length of one degree of longitude at a latitude, in metres. */
export function metresPerLongitude(latitude: number): number {
  return METRES_PER_DEGREE * Math.cos((latitude * Math.PI) / 180);
}

/** Metres between two points, on a plane. */
export function distanceMetres(from: Point, to: Point): number {
  const north = (to.latitude - from.latitude) * METRES_PER_DEGREE;
  const east = (to.longitude - from.longitude) * metresPerLongitude((from.latitude + to.latitude) / 2);
  return Math.hypot(north, east);
}

/** The point this many metres north and east of another one. */
export function moved(from: Point, northMetres: number, eastMetres: number): Point {
  return {
    latitude: from.latitude + northMetres / METRES_PER_DEGREE,
    longitude: from.longitude + eastMetres / metresPerLongitude(from.latitude),
  };
}
