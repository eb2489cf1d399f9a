/**
 * The query parameters of the upstream's three searches, as data (interface, sections 4.1 to 4.3).
 *
 * No other code lists the parameters. The order of a table is the order in the canonical query. The shape of a parameter
 * determines which values are accepted, and which spellings mean the same value (src/query/parse-values.ts).
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

/** One row of a table. */
function row(
  name: string,
  meaning: string,
  example: string,
  shape: Shape,
  more: Pick<Parameter, "sameAsAbsent" | "onlyWith" | "requires"> = {},
): Parameter {
  return { name, meaning, example, shape, ...more };
}

const LATITUDE = { min: -90, max: 90 } as const;
const LONGITUDE = { min: -180, max: 180 } as const;

const text: Shape = { kind: "text" };
const integer: Shape = { kind: "integer" };
const decimal: Shape = { kind: "decimal" };
const date: Shape = { kind: "date" };
const onOff: Shape = { kind: "switch" };
const year: Shape = { kind: "integer", min: 0, max: 9999 };
const tuple = (...parts: readonly TuplePart[]): Shape => ({ kind: "tuple", parts });
const coordinate = tuple({ name: "lat", ...LATITUDE }, { name: "lng", ...LONGITUDE });
const lengths = tuple({ name: "a", min: 0 }, { name: "b", min: 0 });

const q = row("q", "Search string", "Nacka", text);

/** Location and free text: the first part of both property searches. */
const place: readonly Parameter[] = [
  q,
  row("center", "A coordinate", "59.31,18.16", coordinate),
  row("dim", "Size of a rectangle around `center`, in metres", "2000,2000", lengths, { onlyWith: "center" }),
  row(
    "bbox",
    "Rectangular area: south-west corner, then north-east corner",
    "59.2,17.9,59.4,18.3",
    tuple(
      { name: "lat_lo", ...LATITUDE, notAbove: "lat_hi" },
      { name: "lng_lo", ...LONGITUDE, notAbove: "lng_hi" },
      { name: "lat_hi", ...LATITUDE },
      { name: "lng_hi", ...LONGITUDE },
    ),
  ),
  row("areaId", "Area id, or several", "76", { kind: "idSet" }),
];

/** Attributes of a property: the middle part of both property searches. */
const attributes: readonly Parameter[] = [
  row("minRooms", "Fewest rooms", "3", decimal),
  row("maxRooms", "Most rooms", "5", decimal),
  row("maxRent", "Highest monthly fee", "4500", decimal),
  row("minLivingArea", "Smallest living area", "60", decimal),
  row("maxLivingArea", "Largest living area", "120.5", decimal),
  row("minPlotArea", "Smallest plot area", "400", decimal),
  row("maxPlotArea", "Largest plot area", "1200", decimal),
  row("objectType", "Property type, or several", "villa,radhus", { kind: "wordSet", words: OBJECT_TYPES }),
  row("minConstructionYear", "Earliest year built", "1960", year),
  row("maxConstructionYear", "Latest year built", "2010", year),
  row("minPublished", "Earliest date the ad was published", "20260101", date),
  row("maxPublished", "Latest date the ad was published", "20261231", date),
];

/** The default is not documented (section 4.4), so an absent limit is a query of its own. */
const limit = row("limit", "Number of results", "50", { kind: "integer", min: 0, max: MAX_LIMIT });

const anyOffset: Shape = { kind: "integer", min: 0, max: Number.MAX_SAFE_INTEGER };

/** The last parameters of both property searches. */
const last: readonly Parameter[] = [
  row("isNewConstruction", "`1` shows only new construction; `0` excludes new construction", "1", onOff),
  row(
    "includeUnset",
    "Whether other filters also include properties lacking the filtered attribute",
    "0",
    onOff,
    // The documented default is true (section 4.1).
    { sameAsAbsent: "1" },
  ),
  limit,
  row("offset", "Start position", "50", anyOffset, { sameAsAbsent: "0" }),
];

/** The searches' parameters, by resource. */
export const PARAMETERS = {
  /** GET /listings (section 4.1). */
  listings: [
    ...place,
    row("minListPrice", "Lowest price", "2000000", integer),
    row("maxListPrice", "Highest price", "4000000", integer),
    row("minListSqmPrice", "Lowest price per square metre", "20000", integer),
    row("maxListSqmPrice", "Highest price per square metre", "60000", integer),
    ...attributes,
    row("priceDecrease", "Only ads with a reduced price", "1", onOff, { sameAsAbsent: "0" }),
    ...last,
  ],
  /** GET /sold (section 4.2). */
  sold: [
    ...place,
    row("minSoldPrice", "Lowest sold price", "2000000", integer),
    row("maxSoldPrice", "Highest sold price", "4000000", integer),
    row("minSoldSqmPrice", "Lowest sold price per square metre", "20000", integer),
    row("maxSoldSqmPrice", "Highest sold price per square metre", "60000", integer),
    ...attributes,
    row("minSoldDate", "Earliest sale date", "20260101", date),
    row("maxSoldDate", "Latest sale date", "20260630", date),
    ...last,
  ],
  /**
   * GET /areas (section 4.3). `listings` and `transactions` are documented with the value `1` only. The sample answer shows
   * `0` for an absent one, so `0` means absent.
   */
  areas: [
    q,
    row("lat", "Latitude", "59.31", { kind: "decimal", ...LATITUDE }, { requires: "lng" }),
    row("lng", "Longitude", "18.16", { kind: "decimal", ...LONGITUDE }, { requires: "lat" }),
    row("listings", "Only areas with properties for sale", "1", onOff, { sameAsAbsent: "0" }),
    row("transactions", "Only areas with sold properties", "1", onOff, { sameAsAbsent: "0" }),
    limit,
  ],
} satisfies Record<string, readonly Parameter[]>;

/** The parameters of the signature (section 5). They are never part of a query. */
export const CREDENTIAL_PARAMETERS = ["callerId", "time", "unique", "hash"] as const;
