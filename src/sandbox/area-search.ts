/**
 * The search for areas (interface, section 4.3).
 */
import type { Area, SandboxData } from "./dataset/model.ts";
import { searchWords } from "./filters.ts";
import type { Given } from "./filters.ts";
import { distanceMetres } from "./dataset/geo.ts";
import { BadParameter, checkedPoint, readDecimal, readSwitch } from "./values.ts";
import type { Corner } from "./values.ts";

function readPoint(given: Given): Corner | undefined {
  const [latitude, longitude] = [given.get("lat"), given.get("lng")];
  if (latitude === undefined && longitude === undefined) return undefined;
  if (latitude === undefined || longitude === undefined) {
    throw new BadParameter("lat", "given together with lng");
  }
  return checkedPoint("lat, lng", readDecimal("lat", latitude), readDecimal("lng", longitude));
}

/** The areas that contain the point, the smallest first; if there is none, the nearest area. */
function around(point: Corner, areas: readonly Area[]): Area[] {
  const byDistance = areas
    .map((area) => ({ area, metres: distanceMetres(area.ground, point) }))
    .sort((one, other) => one.metres - other.metres);
  const containing = byDistance
    .filter(({ area, metres }) => metres <= area.ground.radiusMetres)
    .map(({ area }) => area)
    .sort((one, other) => one.ground.radiusMetres - other.ground.radiusMetres);
  return containing.length > 0 ? containing : byDistance.slice(0, 1).map(({ area }) => area);
}

/** How well a name matches: the name itself, its beginning, anything else. */
function rank(area: Area, wanted: string): number {
  const name = area.record.name.toLowerCase();
  if (name === wanted) return 0;
  return name.startsWith(wanted) ? 1 : 2;
}

function isAsked(given: Given, name: string): boolean {
  const text = given.get(name);
  return text !== undefined && readSwitch(name, text);
}

/**
 * @returns the matching areas: with a point nearest first, with `q` the best match first, else by id
 * @throws BadParameter
 */
export function findAreas(data: SandboxData, given: Given): Area[] {
  const point = readPoint(given);
  const words = searchWords(given.get("q") ?? "");
  const [withListings, withSold] = [isAsked(given, "listings"), isAsked(given, "transactions")];
  const matching = data.areas.filter(
    (area) =>
      words.every((word) => area.text.includes(word)) &&
      (!withListings || data.areasWithListings.has(area.record.serviceId)) &&
      (!withSold || data.areasWithSold.has(area.record.serviceId)),
  );
  if (point) return around(point, matching);
  const wanted = words.join(" ");
  // The sort is stable, so equals stay in the order of their ids.
  return wanted === "" ? matching : matching.sort((one, other) => rank(one, wanted) - rank(other, wanted));
}
