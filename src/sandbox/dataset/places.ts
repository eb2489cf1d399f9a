/** The map of the data set: Sweden's counties and some of its municipalities (places.json). */
import places from "./places.json" with { type: "json" };

interface County {
  readonly name: string;
  readonly latitude: number;
  readonly longitude: number;
  readonly radiusKm: number;
}

export interface Municipality extends County {
  readonly county: string;
  /** The relative size of its market. */
  readonly weight: number;
  /** Kronor per square metre of an ordinary flat. */
  readonly sqmPrice: number;
}

export const COUNTIES: readonly County[] = places.counties;

export const MUNICIPALITIES: readonly Municipality[] = places.municipalities;

/** Named areas of the large municipalities. The others use names from `COMMON_NAMED_AREAS`. */
export const NAMED_AREAS: Readonly<Record<string, readonly string[]>> = places.namedAreas;

export const COMMON_NAMED_AREAS: readonly string[] = places.commonNamedAreas;

export const STREET_NAMES: readonly string[] = places.streetNames;
