/**
 * The records that the sandbox serves (interface, section 2), and its further data about them.
 */

/** The words for a property's type in the upstream's records. */
export type ObjectTypeWord =
  | "Lägenhet"
  | "Villa"
  | "Radhus"
  | "Kedjehus"
  | "Parhus"
  | "Tomt/Mark"
  | "Fritidshus"
  | "Gård";

/** Section 2.4. `city` and `distance` on sold records only. `ocean` is in metres. */
export interface LocationRecord {
  readonly namedAreas: readonly string[];
  readonly region: { readonly municipalityName: string; readonly countyName: string };
  readonly address: { readonly streetAddress: string; readonly city?: string };
  readonly position: { readonly latitude: number; readonly longitude: number };
  readonly distance?: { readonly ocean: number };
}

/** Section 2.5. `id` on sold records only. */
export interface SourceRecord {
  readonly name: string;
  readonly id?: number;
  readonly type: string;
  readonly url: string;
}

/** A listing or a sold record (sections 2.1 and 2.2). Unknown values are absent, never null. */
export interface PropertyRecord {
  readonly serviceId: number;
  readonly listPrice?: number;
  /** The change of the price; below zero if it was reduced. */
  readonly listPriceChange?: number;
  /** `YYYY-MM-DD HH:MM:SS`. */
  readonly published: string;
  readonly location: LocationRecord;
  readonly objectType: ObjectTypeWord;
  readonly source: SourceRecord;
  readonly rooms?: number;
  readonly livingArea?: number;
  readonly additionalArea?: number;
  readonly plotArea?: number;
  readonly rent?: number;
  readonly floor?: number;
  readonly constructionYear?: number;
  /** Present, and 1, on new construction only. */
  readonly isNewConstruction?: 1;
  readonly url: string;
  /** `YYYY-MM-DD`. This member and the next two are on sold records only. */
  readonly soldDate?: string;
  readonly soldPrice?: number;
  readonly soldPriceSource?: string;
}

/**
 * The values of a record that filters use. Every member is always present, `undefined` if it is unknown. So all objects
 * have one shape and are read several times faster than records, which have hundreds of shapes.
 */
export interface Facts {
  readonly latitude: number;
  readonly longitude: number;
  readonly objectType: ObjectTypeWord;
  readonly isNew: boolean;
  readonly isReduced: boolean;
  /** `YYYYMMDD` as a number, like `soldDay`. */
  readonly publishedDay: number;
  readonly soldDay: number | undefined;
  readonly listPrice: number | undefined;
  readonly soldPrice: number | undefined;
  readonly rooms: number | undefined;
  readonly livingArea: number | undefined;
  readonly plotArea: number | undefined;
  readonly rent: number | undefined;
  readonly constructionYear: number | undefined;
}

/** A record, and the data that searches need. */
export interface PropertyRow {
  readonly record: PropertyRecord;
  readonly facts: Facts;
  /** Every area the property lies in: municipality, county, named area, street. */
  readonly areaIds: readonly number[];
  /** The text that `q` searches, in lower case. */
  readonly text: string;
  /** Shown only if a listing is requested by its id. */
  readonly pageviews: number;
}

/** Section 2.3. A county has no parent, so the parent's fields are absent. */
export interface AreaRecord {
  readonly serviceId: number;
  readonly name: string;
  readonly types: readonly AreaType[];
  readonly parentServiceId?: number;
  readonly parentName?: string;
  readonly parentTypes?: readonly AreaType[];
  readonly fullName: string;
}

export type AreaType = "Kommun" | "Län" | "Street" | "undefined";

/** The ground of an area, approximated by a circle. */
export interface Circle {
  readonly latitude: number;
  readonly longitude: number;
  readonly radiusMetres: number;
}

export interface Area {
  readonly record: AreaRecord;
  readonly ground: Circle;
  /** `name` and `fullName` in lower case, for `q`. */
  readonly text: string;
}

export interface SandboxData {
  /** Newest `published` first, then by id. */
  readonly listings: readonly PropertyRow[];
  /** Newest `soldDate` first, then by id. */
  readonly sold: readonly PropertyRow[];
  /** By id. */
  readonly areas: readonly Area[];
  readonly listingById: ReadonlyMap<number, PropertyRow>;
  readonly soldById: ReadonlyMap<number, PropertyRow>;
  /** Ids of the areas that contain properties for sale, and of those that contain sold ones. */
  readonly areasWithListings: ReadonlySet<number>;
  readonly areasWithSold: ReadonlySet<number>;
}
