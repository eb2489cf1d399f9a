/**
 * Builds the areas: counties, municipalities, named areas and streets, each with its ground.
 */
import { moved } from "./geo.ts";
import type { Random } from "./random.ts";
import type { Area, AreaRecord, AreaType, Circle } from "./model.ts";
import { COMMON_NAMED_AREAS, COUNTIES, MUNICIPALITIES, NAMED_AREAS, STREET_NAMES } from "./places.ts";
import type { Municipality } from "./places.ts";

/** Ids that callers know by heart. */
const WELL_KNOWN_IDS: Readonly<Record<string, number>> = { Stockholm: 1, "Stockholms län": 2, Nacka: 76 };

const NAMED_AREAS_ELSEWHERE = 2;
const STREETS_PER_WEIGHT = 20;

/** A street on which nothing is for sale, and one on which nothing was sold either, now and then. */
const NO_LISTINGS_EVERY = 8;
const NO_SALES_EVERY = 16;

export interface StreetArea {
  readonly area: Area;
  readonly hasListings: boolean;
  readonly hasSold: boolean;
}

/** A municipality with the areas in it. Properties are placed in it. */
export interface Town {
  readonly place: Municipality;
  readonly county: Area;
  readonly municipality: Area;
  readonly namedAreas: readonly Area[];
  readonly streets: readonly StreetArea[];
}

export interface Geography {
  /** By id. */
  readonly areas: readonly Area[];
  readonly towns: readonly Town[];
}

/** Assigns ids: a well-known id if the area has one, otherwise the next free id. */
function idGiver(): (name: string, type: AreaType) => number {
  const taken = new Set(Object.values(WELL_KNOWN_IDS));
  let last = 0;
  return (name, type) => {
    const wellKnown = WELL_KNOWN_IDS[name];
    if (wellKnown !== undefined && (type === "Kommun" || type === "Län")) return wellKnown;
    do last += 1;
    while (taken.has(last));
    return last;
  };
}

function makeArea(serviceId: number, name: string, type: AreaType, ground: Circle, parent?: Area): Area {
  const record: AreaRecord = {
    serviceId,
    name,
    types: [type],
    ...(parent && {
      parentServiceId: parent.record.serviceId,
      parentName: parent.record.name,
      parentTypes: parent.record.types,
    }),
    fullName: parent ? `${name}, ${parent.record.name}` : name,
  };
  return { record, ground, text: record.fullName.toLowerCase() };
}

/** A circle at a random place inside another one. */
function circleWithin(outer: Circle, radiusMetres: number, random: Random): Circle {
  const room = Math.max(0, outer.radiusMetres - radiusMetres);
  const angle = random.next() * 2 * Math.PI;
  const away = Math.sqrt(random.next()) * room;
  return { ...moved(outer, Math.sin(angle) * away, Math.cos(angle) * away), radiusMetres };
}

/** Picks this many different names. */
function differentNames(names: readonly string[], count: number, random: Random): string[] {
  const left = [...names];
  return Array.from({ length: Math.min(count, left.length) }, () =>
    left.splice(random.integer(0, left.length - 1), 1),
  ).flat();
}

/** Streets lie within a named area, which is their parent. */
function makeStreets(
  place: Municipality,
  namedAreas: readonly Area[],
  giveId: (name: string, type: AreaType) => number,
  random: Random,
): StreetArea[] {
  const count = Math.max(1, Math.ceil(place.weight / STREETS_PER_WEIGHT));
  return differentNames(STREET_NAMES, count, random).map((name) => {
    const parent = random.pick(namedAreas);
    const serviceId = giveId(name, "Street");
    return {
      area: makeArea(serviceId, name, "Street", circleWithin(parent.ground, 300, random), parent),
      hasListings: serviceId % NO_LISTINGS_EVERY !== 0,
      hasSold: serviceId % NO_SALES_EVERY !== 0,
    };
  });
}

/** @returns about 400 areas, and the municipalities as places for properties */
export function buildGeography(random: Random): Geography {
  const giveId = idGiver();
  const counties = COUNTIES.map(({ name, radiusKm, latitude, longitude }) =>
    makeArea(giveId(name, "Län"), name, "Län", { latitude, longitude, radiusMetres: radiusKm * 1000 }),
  );
  const towns = MUNICIPALITIES.map((place): Town => {
    const { name, latitude, longitude } = place;
    const ground: Circle = { latitude, longitude, radiusMetres: place.radiusKm * 1000 };
    const county = counties.find((area) => area.record.name === place.county);
    if (!county) throw new Error(`${name} is in no known county`);
    const municipality = makeArea(giveId(name, "Kommun"), name, "Kommun", ground, county);
    const names = NAMED_AREAS[name] ?? differentNames(COMMON_NAMED_AREAS, NAMED_AREAS_ELSEWHERE, random);
    const namedAreas = names.map((named) =>
      makeArea(
        giveId(named, "undefined"),
        named,
        "undefined",
        circleWithin(ground, ground.radiusMetres / 4, random),
        municipality,
      ),
    );
    return {
      place,
      county,
      municipality,
      namedAreas,
      streets: makeStreets(place, namedAreas, giveId, random),
    };
  });
  const areas = [
    ...counties,
    ...towns.flatMap((town) => [
      town.municipality,
      ...town.namedAreas,
      ...town.streets.map((street) => street.area),
    ]),
  ];
  areas.sort((one, other) => one.record.serviceId - other.record.serviceId);
  return { areas, towns };
}
