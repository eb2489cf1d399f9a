/**
 * Generates the data set: properties for sale and sold, spread over the towns by the size of their markets.
 */
import { moved } from "./geo.ts";
import { seededRandom, weightedPicker } from "./random.ts";
import type { Random } from "./random.ts";
import { buildGeography } from "./areas.ts";
import type { StreetArea, Town } from "./areas.ts";
import { makeDwelling } from "./dwelling.ts";
import type {
  Facts,
  LocationRecord,
  PropertyRecord,
  PropertyRow,
  SandboxData,
  SourceRecord,
} from "./model.ts";
import { STREET_NAMES } from "./places.ts";

export interface GenerateOptions {
  /** The same seed and sizes give the same data. */
  readonly seed: number;
  readonly listings: number;
  readonly sold: number;
  /** The service's neutral name, for addresses in records. */
  readonly service: string;
}

/** The day the data set ends; fixed, so that a seed always gives the same records. */
const NEWEST_AT = Date.UTC(2026, 5, 1, 12);
const DAY_MS = 86_400_000;
const OLDEST_LISTING_DAYS = 240;
const OLDEST_SALE_DAYS = 8 * 365;

/** Ids leave gaps, so that some are unknown. */
const FIRST_SOLD_ID = 1_000_000;
const FIRST_LISTING_ID = 4_000_000;
const ID_STEP = 7;

const BROKERS = [
  "Fastighetsbyrån",
  "Svensk Fastighetsförmedling",
  "Länsförsäkringar Fastighetsförmedling",
  "Mäklarhuset",
  "Bjurfors",
  "HusmanHagberg",
  "Skandiamäklarna",
  "Notar",
  "Mäklarringen",
  "Erik Olsson Fastighetsförmedling",
] as const;

interface Maker {
  readonly random: Random;
  readonly service: string;
  readonly pickTown: (random: Random) => Town;
}

/** `YYYY-MM-DD HH:MM:SS` of an instant. */
function timestamp(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace("T", " ");
}

/** A timestamp's or a date's day as the number `YYYYMMDD`. */
function dayNumber(date: string): number {
  return Number(date.slice(0, 4) + date.slice(5, 7) + date.slice(8, 10));
}

function roundTo(step: number, value: number): number {
  return Math.round(value / step) * step;
}

function coordinate(degrees: number): number {
  return Math.round(degrees * 1e6) / 1e6;
}

function makeSource(random: Random, forSold: boolean): SourceRecord {
  const id = random.integer(0, BROKERS.length - 1);
  const name = BROKERS[id] ?? BROKERS[0];
  const host = name
    .normalize("NFD")
    .toLowerCase()
    .replaceAll(/[^a-z]/g, "");
  return {
    name,
    ...(forSold && { id: 10 + id }),
    type: "Broker",
    url: `http://www.${host}.example/objekt/${random.integer(100_000, 999_999)}`,
  };
}

/** A place in a town: in one of its named areas, and sometimes on a street that is itself an area. */
function makeLocation(
  town: Town,
  random: Random,
  forSold: boolean,
): { location: LocationRecord; areaIds: readonly number[] } {
  const open = town.streets.filter((street: StreetArea) => (forSold ? street.hasSold : street.hasListings));
  const street = open.length > 0 && random.chance(0.12) ? random.pick(open) : undefined;
  const parentId = street?.area.record.parentServiceId;
  const named =
    town.namedAreas.find((area) => area.record.serviceId === parentId) ?? random.pick(town.namedAreas);
  const ground = (street?.area ?? named).ground;
  const at = moved(
    ground,
    (random.bell() * ground.radiusMetres) / 3,
    (random.bell() * ground.radiusMetres) / 3,
  );
  const streetName = street?.area.record.name ?? random.pick(STREET_NAMES);
  const location: LocationRecord = {
    namedAreas: [named.record.name],
    region: { municipalityName: town.place.name, countyName: town.place.county },
    address: {
      streetAddress: `${streetName} ${random.integer(1, 90)}${random.chance(0.1) ? "B" : ""}`,
      ...(forSold && random.chance(0.7) && { city: named.record.name }),
    },
    position: { latitude: coordinate(at.latitude), longitude: coordinate(at.longitude) },
    ...(forSold && random.chance(0.55) && { distance: { ocean: random.integer(20, 9000) } }),
  };
  const areaIds = [town.municipality, town.county, named, ...(street ? [street.area] : [])];
  return { location, areaIds: areaIds.map((area) => area.record.serviceId) };
}

/** The text that `q` searches. */
function searchText(location: LocationRecord): string {
  const { namedAreas, region, address } = location;
  const words = [...namedAreas, address.streetAddress, region.municipalityName, region.countyName];
  return words.join(" ").toLowerCase();
}

function factsOf(record: PropertyRecord): Facts {
  return {
    ...record.location.position,
    objectType: record.objectType,
    isNew: record.isNewConstruction === 1,
    isReduced: record.listPriceChange !== undefined && record.listPriceChange < 0,
    publishedDay: dayNumber(record.published),
    soldDay: record.soldDate === undefined ? undefined : dayNumber(record.soldDate),
    listPrice: record.listPrice,
    soldPrice: record.soldPrice,
    rooms: record.rooms,
    livingArea: record.livingArea,
    plotArea: record.plotArea,
    rent: record.rent,
    constructionYear: record.constructionYear,
  };
}

function asRow(record: PropertyRecord, areaIds: readonly number[], pageviews: number): PropertyRow {
  return {
    record,
    facts: factsOf(record),
    areaIds,
    text: searchText(record.location),
    pageviews,
  };
}

/** Most listings are recent. */
function makeListing(maker: Maker, serviceId: number): PropertyRow {
  const { random, service } = maker;
  const town = maker.pickTown(random);
  const { location, areaIds } = makeLocation(town, random, false);
  const { attributes, value } = makeDwelling(town.place.sqmPrice, random);
  const listPrice = roundTo(5000, value);
  const changed = random.chance(0.12);
  const step = roundTo(5000, listPrice * 0.05) + 5000;
  const record: PropertyRecord = {
    serviceId,
    ...(random.chance(0.94) && {
      listPrice,
      ...(changed && { listPriceChange: random.chance(0.85) ? -step : step }),
    }),
    published: timestamp(NEWEST_AT - random.next() ** 2 * OLDEST_LISTING_DAYS * DAY_MS),
    location,
    source: makeSource(random, false),
    ...attributes,
    url: `https://www.${service}.example/annons/${serviceId}`,
  };
  return asRow(record, areaIds, random.integer(3, 9000));
}

function makeSold(maker: Maker, serviceId: number): PropertyRow {
  const { random, service } = maker;
  const town = maker.pickTown(random);
  const { location, areaIds } = makeLocation(town, random, true);
  const { attributes, value } = makeDwelling(town.place.sqmPrice, random);
  const soldAt = NEWEST_AT - random.next() * OLDEST_SALE_DAYS * DAY_MS;
  const record: PropertyRecord = {
    serviceId,
    ...(random.chance(0.88) && { listPrice: roundTo(5000, value * (1 - random.bell() * 0.06)) }),
    published: timestamp(soldAt - random.integer(4, 90) * DAY_MS),
    location,
    source: makeSource(random, true),
    ...attributes,
    soldDate: timestamp(soldAt).slice(0, 10),
    soldPrice: roundTo(5000, value),
    ...(random.chance(0.6) && { soldPriceSource: random.chance(0.5) ? "bid" : "register" }),
    url: `https://www.${service}.example/bostad/${serviceId}`,
  };
  return asRow(record, areaIds, 0);
}

/** Newest first by the given date, then by id. */
function newestFirst(rows: PropertyRow[], dateOf: (record: PropertyRecord) => string): PropertyRow[] {
  return rows.sort((one, other) => {
    const [a, b] = [dateOf(one.record), dateOf(other.record)];
    if (a === b) return one.record.serviceId - other.record.serviceId;
    return a < b ? 1 : -1;
  });
}

function byId(rows: readonly PropertyRow[]): Map<number, PropertyRow> {
  return new Map(rows.map((row) => [row.record.serviceId, row]));
}

function makeMany(
  count: number,
  firstId: number,
  maker: Maker,
  make: (maker: Maker, serviceId: number) => PropertyRow,
): PropertyRow[] {
  return Array.from({ length: count }, (_, index) =>
    make(maker, firstId + index * ID_STEP + maker.random.integer(0, ID_STEP - 2)),
  );
}

/**
 * Generates a whole data set, in about a third of a second for 36,000 properties. Listings and sold records use separate
 * random sequences, so that the number of one does not change the other.
 */
export function generateData(options: GenerateOptions): SandboxData {
  const { areas, towns } = buildGeography(seededRandom(options.seed));
  const pickTown = weightedPicker(towns, (town) => town.place.weight);
  const maker = (salt: number): Maker => ({
    random: seededRandom(options.seed * 31 + salt),
    service: options.service,
    pickTown,
  });
  const listings = newestFirst(
    makeMany(options.listings, FIRST_LISTING_ID, maker(1), makeListing),
    (record) => record.published,
  );
  const sold = newestFirst(
    makeMany(options.sold, FIRST_SOLD_ID, maker(2), makeSold),
    (record) => record.soldDate ?? "",
  );
  return {
    listings,
    sold,
    areas,
    listingById: byId(listings),
    soldById: byId(sold),
    areasWithListings: new Set(listings.flatMap((row) => row.areaIds)),
    areasWithSold: new Set(sold.flatMap((row) => row.areaIds)),
  };
}
