/**
 * The query parameters of the upstream's three searches, as data (interface, sections 4.1 to 4.3).
 *
 * No other code lists the parameters. The order of a table is the order in the canonical query. The shape of a parameter
 * determines which values are accepted, and which spellings mean the same value (src/query/values.ts).
 */

/** The values of `objectType`, in the interface's order (section 2.6). */
export const OBJECT_TYPES = [
  "villa",
  "lägenhet",
  "gård",
  "tomt-mark",
  "fritidshus",
  "parhus",
  "radhus",
  "kedjehus",
] as const;

/** The largest page size (section 4.4, item 2). */
export const MAX_LIMIT = 500;

/** The form of a parameter's value. Bounds are inclusive. */
export type Shape =
  | { readonly kind: "text" }
  | { readonly kind: "integer"; readonly min?: number; readonly max?: number }
  | { readonly kind: "decimal"; readonly min?: number; readonly max?: number }
  /** A calendar day, written `YYYYMMDD`. */
  | { readonly kind: "date" }
  /** `1` or `0`. */
  | { readonly kind: "switch" }
  /** One or more non-negative integers, separated by commas. Order and repetition do not matter. */
  | { readonly kind: "idSet" }
  /** One or more of the words, separated by commas. Order, repetition and case do not matter. */
  | { readonly kind: "wordSet"; readonly words: readonly string[] }
  /** A fixed number of decimals, separated by commas, each with its own bounds. */
  | { readonly kind: "tuple"; readonly parts: readonly TuplePart[] };

export interface TuplePart {
  readonly name: string;
  readonly min?: number;
  readonly max?: number;
  /** The part that must not be smaller than this one. */
  readonly notAbove?: string;
}

export interface Parameter {
  readonly name: string;
  readonly meaning: string;
  readonly shape: Shape;
  /** A value as a caller writes it. */
  readonly example: string;
  /** The canonical value that means the same as omitting the parameter. */
  readonly sameAsAbsent?: string;
  /** The parameter is dropped unless this other parameter is given. */
  readonly onlyWith?: string;
  /** The parameter is refused unless this other parameter is given. */
  readonly requires?: string;
}

const LATITUDE = { min: -90, max: 90 } as const;
const LONGITUDE = { min: -180, max: 180 } as const;

const integer: Shape = { kind: "integer" };
const decimal: Shape = { kind: "decimal" };
const date: Shape = { kind: "date" };
const onOff: Shape = { kind: "switch" };
const year: Shape = { kind: "integer", min: 0, max: 9999 };

/** Location and free text: the first part of both property searches. */
const place: readonly Parameter[] = [
  { name: "q", meaning: "Search string", example: "Nacka", shape: { kind: "text" } },
  {
    name: "center",
    meaning: "A coordinate",
    example: "59.31,18.16",
    shape: {
      kind: "tuple",
      parts: [
        { name: "lat", ...LATITUDE },
        { name: "lng", ...LONGITUDE },
      ],
    },
  },
  {
    name: "dim",
    meaning: "Size of a rectangle around `center`, in metres",
    example: "2000,2000",
    shape: {
      kind: "tuple",
      parts: [
        { name: "a", min: 0 },
        { name: "b", min: 0 },
      ],
    },
    onlyWith: "center",
  },
  {
    name: "bbox",
    meaning: "Rectangular area: south-west corner, then north-east corner",
    example: "59.2,17.9,59.4,18.3",
    shape: {
      kind: "tuple",
      parts: [
        { name: "lat_lo", ...LATITUDE, notAbove: "lat_hi" },
        { name: "lng_lo", ...LONGITUDE, notAbove: "lng_hi" },
        { name: "lat_hi", ...LATITUDE },
        { name: "lng_hi", ...LONGITUDE },
      ],
    },
  },
  { name: "areaId", meaning: "Area id, or several", example: "76", shape: { kind: "idSet" } },
];

/** Attributes of a property: the middle part of both property searches. */
const attributes: readonly Parameter[] = [
  { name: "minRooms", meaning: "Fewest rooms", example: "3", shape: decimal },
  { name: "maxRooms", meaning: "Most rooms", example: "5", shape: decimal },
  { name: "maxRent", meaning: "Highest monthly fee", example: "4500", shape: decimal },
  { name: "minLivingArea", meaning: "Smallest living area", example: "60", shape: decimal },
  { name: "maxLivingArea", meaning: "Largest living area", example: "120.5", shape: decimal },
  { name: "minPlotArea", meaning: "Smallest plot area", example: "400", shape: decimal },
  { name: "maxPlotArea", meaning: "Largest plot area", example: "1200", shape: decimal },
  {
    name: "objectType",
    meaning: "Property type, or several",
    example: "villa,radhus",
    shape: { kind: "wordSet", words: OBJECT_TYPES },
  },
  { name: "minConstructionYear", meaning: "Earliest year built", example: "1960", shape: year },
  { name: "maxConstructionYear", meaning: "Latest year built", example: "2010", shape: year },
  { name: "minPublished", meaning: "Earliest date the ad was published", example: "20260101", shape: date },
  { name: "maxPublished", meaning: "Latest date the ad was published", example: "20261231", shape: date },
];

const isNewConstruction: Parameter = {
  name: "isNewConstruction",
  meaning: "`1` shows only new construction; `0` excludes new construction",
  example: "1",
  shape: onOff,
};

/** The documented default is true (section 4.1). */
const includeUnset: Parameter = {
  name: "includeUnset",
  meaning: "Whether other filters also include properties lacking the filtered attribute",
  example: "0",
  shape: onOff,
  sameAsAbsent: "1",
};

/** The default is not documented (section 4.4), so an absent limit is a query of its own. */
const limit: Parameter = {
  name: "limit",
  meaning: "Number of results",
  example: "50",
  shape: { kind: "integer", min: 0, max: MAX_LIMIT },
};

const offset: Parameter = {
  name: "offset",
  meaning: "Start position",
  example: "50",
  shape: { kind: "integer", min: 0, max: Number.MAX_SAFE_INTEGER },
  sameAsAbsent: "0",
};

/** GET /listings (section 4.1). */
const LISTINGS_PARAMETERS: readonly Parameter[] = [
  ...place,
  { name: "minListPrice", meaning: "Lowest price", example: "2000000", shape: integer },
  { name: "maxListPrice", meaning: "Highest price", example: "4000000", shape: integer },
  { name: "minListSqmPrice", meaning: "Lowest price per square metre", example: "20000", shape: integer },
  { name: "maxListSqmPrice", meaning: "Highest price per square metre", example: "60000", shape: integer },
  ...attributes,
  {
    name: "priceDecrease",
    meaning: "Only ads with a reduced price",
    example: "1",
    shape: onOff,
    sameAsAbsent: "0",
  },
  isNewConstruction,
  includeUnset,
  limit,
  offset,
];

/** GET /sold (section 4.2). */
const SOLD_PARAMETERS: readonly Parameter[] = [
  ...place,
  { name: "minSoldPrice", meaning: "Lowest sold price", example: "2000000", shape: integer },
  { name: "maxSoldPrice", meaning: "Highest sold price", example: "4000000", shape: integer },
  {
    name: "minSoldSqmPrice",
    meaning: "Lowest sold price per square metre",
    example: "20000",
    shape: integer,
  },
  {
    name: "maxSoldSqmPrice",
    meaning: "Highest sold price per square metre",
    example: "60000",
    shape: integer,
  },
  ...attributes,
  { name: "minSoldDate", meaning: "Earliest sale date", example: "20260101", shape: date },
  { name: "maxSoldDate", meaning: "Latest sale date", example: "20260630", shape: date },
  isNewConstruction,
  includeUnset,
  limit,
  offset,
];

/**
 * GET /areas (section 4.3). `listings` and `transactions` are documented with the value `1` only. The sample answer shows
 * `0` for an absent one, so `0` means absent.
 */
const AREAS_PARAMETERS: readonly Parameter[] = [
  { name: "q", meaning: "Search string", example: "Nacka", shape: { kind: "text" } },
  {
    name: "lat",
    meaning: "Latitude",
    example: "59.31",
    shape: { kind: "decimal", ...LATITUDE },
    requires: "lng",
  },
  {
    name: "lng",
    meaning: "Longitude",
    example: "18.16",
    shape: { kind: "decimal", ...LONGITUDE },
    requires: "lat",
  },
  {
    name: "listings",
    meaning: "Only areas with properties for sale",
    example: "1",
    shape: onOff,
    sameAsAbsent: "0",
  },
  {
    name: "transactions",
    meaning: "Only areas with sold properties",
    example: "1",
    shape: onOff,
    sameAsAbsent: "0",
  },
  limit,
];

/** The searches' parameters, by resource. */
export const PARAMETERS = {
  listings: LISTINGS_PARAMETERS,
  sold: SOLD_PARAMETERS,
  areas: AREAS_PARAMETERS,
} as const;

/** The parameters of the signature (section 5). They are never part of a query. */
export const CREDENTIAL_PARAMETERS = ["callerId", "time", "unique", "hash"] as const;
