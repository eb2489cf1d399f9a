/**
 * The filters of the two property searches (interface, sections 4.1 and 4.2): a parameter's name, how its value is
 * read, and which records match.
 */
import type { Facts, PropertyRow } from "./dataset/model.ts";
import { METRES_PER_DEGREE, metresPerLongitude } from "./dataset/geo.ts";
import {
  checkedPoint,
  readDay,
  readDecimal,
  readIds,
  readInteger,
  readObjectTypes,
  readSwitch,
  readTuple,
} from "./values.ts";
import type { Corner, Reader } from "./values.ts";

/** The parameters of a request, without empty ones. */
export type Given = ReadonlyMap<string, string>;

type Predicate = (row: PropertyRow) => boolean;

export interface Filter {
  readonly name: string;
  /**
   * @returns which records match, or `undefined` if the value filters nothing
   * @throws BadParameter
   */
  readonly compile: (text: string, given: Given) => Predicate | undefined;
}

function filter(name: string, compile: Filter["compile"]): Filter {
  return { name, compile };
}

/** The side of the square around `center` without `dim`. The interface does not define it, so this is our choice. */
const DEFAULT_DIM_METRES = 2000;

type Attribute = (facts: Facts) => number | undefined;

/** Whether records without the filtered attribute match. The default is yes. */
function includesUnset(given: Given): boolean {
  const text = given.get("includeUnset");
  return text === undefined || readSwitch("includeUnset", text);
}

/** @param direction 1: at least; -1: at most */
function bounded(name: string, read: Reader<number>, attribute: Attribute, direction: 1 | -1): Filter {
  return {
    name,
    compile: (text, given) => {
      const bound = read(name, text);
      const unset = includesUnset(given);
      return ({ facts }) => {
        const value = attribute(facts);
        return value === undefined ? unset : (value - bound) * direction >= 0;
      };
    },
  };
}

/** `min<Name>` and `max<Name>`. */
function between(name: string, read: Reader<number>, attribute: Attribute): Filter[] {
  return [bounded(`min${name}`, read, attribute, 1), bounded(`max${name}`, read, attribute, -1)];
}

function within(southWest: Corner, northEast: Corner): Predicate {
  return ({ facts: { latitude, longitude } }) =>
    latitude >= southWest.latitude &&
    latitude <= northEast.latitude &&
    longitude >= southWest.longitude &&
    longitude <= northEast.longitude;
}

/** The words of a search string. A text matches if it has all of them. */
export function searchWords(text: string): string[] {
  return text
    .normalize("NFC")
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((word) => word !== "");
}

const q = filter("q", (text) => {
  const words = searchWords(text);
  return (row) => words.every((word) => row.text.includes(word));
});

/** `dim` is width (west to east), then height (south to north), of a rectangle centred on `center`. */
const center = filter("center", (text, given) => {
  const [latitude = 0, longitude = 0] = readTuple("center", text, 2);
  checkedPoint("center", latitude, longitude);
  const dim = given.get("dim");
  const [width = 0, height = 0] =
    dim === undefined ? [DEFAULT_DIM_METRES, DEFAULT_DIM_METRES] : readTuple("dim", dim, 2);
  const north = height / 2 / METRES_PER_DEGREE;
  const east = width / 2 / metresPerLongitude(latitude);
  return within(
    { latitude: latitude - north, longitude: longitude - east },
    { latitude: latitude + north, longitude: longitude + east },
  );
});

/** It filters nothing by itself, but must be well formed. */
const dim = filter("dim", (text) => {
  readTuple("dim", text, 2);
  return undefined;
});

const bbox = filter("bbox", (text) => {
  const [south = 0, west = 0, north = 0, east = 0] = readTuple("bbox", text, 4);
  return within(checkedPoint("bbox", south, west), checkedPoint("bbox", north, east));
});

/** A record lists every area it lies in, so a county finds the records of its municipalities. */
const areaId = filter("areaId", (text) => {
  const ids = readIds("areaId", text);
  return (row) => row.areaIds.some((id) => ids.has(id));
});

const objectType = filter("objectType", (text) => {
  const types = readObjectTypes("objectType", text);
  return ({ facts }) => types.has(facts.objectType);
});

/** If the field is absent, the building is not new. `includeUnset` does not change that. */
const isNewConstruction = filter("isNewConstruction", (text) => {
  const wanted = readSwitch("isNewConstruction", text);
  return ({ facts }) => facts.isNew === wanted;
});

const priceDecrease: Filter = {
  name: "priceDecrease",
  compile: (text) => (readSwitch("priceDecrease", text) ? ({ facts }) => facts.isReduced : undefined),
};

const includeUnset = filter("includeUnset", (text) => {
  readSwitch("includeUnset", text);
  return undefined;
});

function perSquareMetre(price: number | undefined, livingArea: number | undefined): number | undefined {
  return price === undefined || livingArea === undefined ? undefined : price / livingArea;
}

const place: readonly Filter[] = [q, center, dim, bbox, areaId];

const attributes: readonly Filter[] = [
  ...between("Rooms", readDecimal, (facts) => facts.rooms),
  bounded("maxRent", readDecimal, (facts) => facts.rent, -1),
  ...between("LivingArea", readDecimal, (facts) => facts.livingArea),
  ...between("PlotArea", readDecimal, (facts) => facts.plotArea),
  objectType,
  ...between("ConstructionYear", readInteger, (facts) => facts.constructionYear),
  ...between("Published", readDay, (facts) => facts.publishedDay),
];

/** Section 4.1. */
export const LISTINGS_FILTERS: readonly Filter[] = [
  ...place,
  ...between("ListPrice", readInteger, (facts) => facts.listPrice),
  ...between("ListSqmPrice", readInteger, (facts) => perSquareMetre(facts.listPrice, facts.livingArea)),
  ...attributes,
  priceDecrease,
  isNewConstruction,
  includeUnset,
];

/** Section 4.2. */
export const SOLD_FILTERS: readonly Filter[] = [
  ...place,
  ...between("SoldPrice", readInteger, (facts) => facts.soldPrice),
  ...between("SoldSqmPrice", readInteger, (facts) => perSquareMetre(facts.soldPrice, facts.livingArea)),
  ...attributes,
  ...between("SoldDate", readDay, (facts) => facts.soldDay),
  isNewConstruction,
  includeUnset,
];
