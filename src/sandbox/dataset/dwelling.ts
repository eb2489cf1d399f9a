/**
 * Generates a property: its type, its size and its cost. Some values are absent, as in real ads.
 */
import { weightedPicker } from "./random.ts";
import type { Random } from "./random.ts";
import type { ObjectTypeWord, PropertyRecord } from "./model.ts";

type Attributes = Pick<
  PropertyRecord,
  | "objectType"
  | "rooms"
  | "livingArea"
  | "additionalArea"
  | "plotArea"
  | "rent"
  | "floor"
  | "constructionYear"
  | "isNewConstruction"
>;

export interface Dwelling {
  readonly attributes: Attributes;
  /** Its value, in kronor. */
  readonly value: number;
}

interface Kind {
  readonly word: ObjectTypeWord;
  /** Share of the market, in per cent. */
  readonly share: number;
  /** Usual living area and its spread, in square metres; 0: nothing to live in. */
  readonly area: readonly [usual: number, spread: number];
  /** Usual plot in square metres; 0: none of its own. */
  readonly plot: number;
  /** Chance of a monthly fee. */
  readonly rent: number;
  /** Price per square metre, relative to a flat. */
  readonly priceFactor: number;
}

const KINDS: readonly Kind[] = [
  { word: "Lägenhet", share: 46, area: [66, 22], plot: 0, rent: 0.94, priceFactor: 1 },
  { word: "Villa", share: 27, area: [135, 38], plot: 1100, rent: 0, priceFactor: 0.72 },
  { word: "Radhus", share: 7, area: [112, 20], plot: 260, rent: 0.4, priceFactor: 0.75 },
  { word: "Kedjehus", share: 2, area: [122, 18], plot: 400, rent: 0.1, priceFactor: 0.72 },
  { word: "Parhus", share: 2, area: [115, 22], plot: 450, rent: 0.15, priceFactor: 0.74 },
  { word: "Tomt/Mark", share: 7, area: [0, 0], plot: 2200, rent: 0, priceFactor: 1 },
  { word: "Fritidshus", share: 8, area: [62, 20], plot: 1900, rent: 0, priceFactor: 0.8 },
  { word: "Gård", share: 1, area: [170, 50], plot: 65_000, rent: 0, priceFactor: 0.6 },
];

const pickKind = weightedPicker(KINDS, (kind) => kind.share);

const CHEAPEST = 500_000;
const DEAREST = 30_000_000;
/** Lifts the median to about three million. */
const MARKET = 1.25;
const NEWEST_YEAR = 2026;

/** One in five measures to the half square metre. */
function livingAreaOf(kind: Kind, random: Random): number {
  const [usual, spread] = kind.area;
  const whole = Math.max(18, Math.round(usual + random.bell() * spread));
  return random.chance(0.2) ? whole + 0.5 : whole;
}

function roomsFor(livingArea: number, random: Random): number {
  const rooms = Math.max(1, Math.round(livingArea / 26 + random.bell() * 0.5));
  return random.chance(0.06) ? rooms + 0.5 : rooms;
}

function yearBuilt(isNew: boolean, random: Random): number {
  if (isNew) return random.integer(NEWEST_YEAR - 1, NEWEST_YEAR + 1);
  return random.chance(0.15) ? random.integer(1880, 1929) : random.integer(1930, NEWEST_YEAR - 2);
}

/** A value near `usual`. Twice or half of it is rare. */
function about(usual: number, random: Random): number {
  return Math.round(usual * Math.exp(random.bell() * 0.35));
}

function worth(sqmPrice: number, livingArea: number | undefined, plotArea: number, random: Random): number {
  const usual = livingArea === undefined ? 250_000 + plotArea * sqmPrice * 0.008 : livingArea * sqmPrice;
  return Math.min(DEAREST, Math.max(CHEAPEST, Math.exp(random.bell() * 0.22) * usual));
}

/** The sizes, as far as the property has them and the ad names them. */
function sizesOf(
  kind: Kind,
  livingArea: number | undefined,
  plotArea: number,
  random: Random,
): Partial<Attributes> {
  const hasGrounds = kind.plot > 0 && livingArea !== undefined;
  return {
    ...(livingArea !== undefined && random.chance(0.97) && { rooms: roomsFor(livingArea, random) }),
    ...(livingArea !== undefined && random.chance(0.97) && { livingArea }),
    ...(hasGrounds && random.chance(0.35) && { additionalArea: about(40, random) }),
    ...(plotArea > 0 && random.chance(0.85) && { plotArea }),
  };
}

/** The building, and its cost per month. */
function buildingOf(kind: Kind, livingArea: number, isNew: boolean, random: Random): Partial<Attributes> {
  const isFlat = kind.word === "Lägenhet";
  return {
    ...(random.chance(kind.rent) && { rent: about(1500 + livingArea * 42, random) }),
    ...(isFlat && random.chance(0.8) && { floor: random.chance(0.1) ? 0 : random.integer(1, 8) }),
    ...(random.chance(0.9) && { constructionYear: yearBuilt(isNew, random) }),
    ...(isNew && { isNewConstruction: 1 as const }),
  };
}

/** @param sqmPrice kronor per square metre of an ordinary flat in the area */
export function makeDwelling(sqmPrice: number, random: Random): Dwelling {
  const kind = pickKind(random);
  const livingArea = kind.area[0] > 0 ? livingAreaOf(kind, random) : undefined;
  const plotArea = kind.plot > 0 ? about(kind.plot, random) : 0;
  const attributes: Attributes = {
    objectType: kind.word,
    ...sizesOf(kind, livingArea, plotArea, random),
    ...(livingArea !== undefined && buildingOf(kind, livingArea, random.chance(0.05), random)),
  };
  const value = worth(sqmPrice * kind.priceFactor * MARKET, livingArea, plotArea, random);
  return { attributes, value };
}
