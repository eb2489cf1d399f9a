/**
 * Reads parameter values as sections 4.1 to 4.3 of the interface define them.
 * Every reader throws `BadParameter` if the value is malformed (400).
 */
import { OBJECT_TYPES } from "../interface/parameters.ts";
import type { ObjectTypeWord } from "./dataset/model.ts";

/** A malformed value. The message may be shown to the caller. */
export class BadParameter extends Error {
  constructor(name: string, wanted: string) {
    super(`FAILURE_INVALID_PARAM - ${name} must be ${wanted}`);
    this.name = "BadParameter";
  }
}

export type Reader<T> = (name: string, text: string) => T;

const INTEGER = /^[+-]?\d{1,15}(\.0+)?$/;
const DECIMAL = /^[+-]?(\d{1,15}(\.\d+)?|\.\d+)$/;
const DAY = /^(\d{4})(\d{2})(\d{2})$/;

export const readInteger: Reader<number> = (name, text) => {
  if (!INTEGER.test(text)) throw new BadParameter(name, "an integer");
  return Number(text);
};

export const readDecimal: Reader<number> = (name, text) => {
  if (!DECIMAL.test(text)) throw new BadParameter(name, "a number");
  return Number(text);
};

/** A calendar day as the number `YYYYMMDD`. */
export const readDay: Reader<number> = (name, text) => {
  const [, year, month, day] = DAY.exec(text) ?? [];
  const instant = new Date(`${year}-${month}-${day}T00:00:00Z`);
  // JavaScript reads a day that does not exist, such as 0231, as another day.
  if (Number.isNaN(instant.getTime()) || instant.toISOString().slice(8, 10) !== day) {
    throw new BadParameter(name, "a date, YYYYMMDD");
  }
  return Number(text);
};

/** `1` or `0`. */
export const readSwitch: Reader<boolean> = (name, text) => {
  if (text !== "1" && text !== "0") throw new BadParameter(name, "1 or 0");
  return text === "1";
};

function readList(text: string): string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

export const readIds: Reader<ReadonlySet<number>> = (name, text) => {
  const items = readList(text);
  if (items.length === 0 || !items.every((item) => /^\d{1,15}$/.test(item))) {
    throw new BadParameter(name, "an integer or a comma-separated list of integers");
  }
  return new Set(items.map(Number));
};

/** Reads this many decimal numbers, separated by commas. */
export function readTuple(name: string, text: string, size: number): number[] {
  const items = text.split(",").map((item) => item.trim());
  if (items.length !== size || !items.every((item) => DECIMAL.test(item))) {
    throw new BadParameter(name, `${size} numbers separated by commas`);
  }
  return items.map(Number);
}

export interface Corner {
  readonly latitude: number;
  readonly longitude: number;
}

/** Checks a point on the globe. */
export function checkedPoint(name: string, latitude: number, longitude: number): Corner {
  if (Math.abs(latitude) > 90 || Math.abs(longitude) > 180) {
    throw new BadParameter(name, "a latitude within ±90 and a longitude within ±180");
  }
  return { latitude, longitude };
}

/** The words of the filter, in the interface's order, and the words of records. */
const WORD_IN_RECORDS: Record<(typeof OBJECT_TYPES)[number], ObjectTypeWord> = {
  villa: "Villa",
  lägenhet: "Lägenhet",
  gård: "Gård",
  "tomt-mark": "Tomt/Mark",
  fritidshus: "Fritidshus",
  parhus: "Parhus",
  radhus: "Radhus",
  kedjehus: "Kedjehus",
};

/** Section 2.6; case is ignored. */
export const readObjectTypes: Reader<ReadonlySet<ObjectTypeWord>> = (name, text) => {
  const given = readList(text.normalize("NFC").toLowerCase());
  const known = OBJECT_TYPES.filter((type) => given.includes(type));
  if (known.length === 0 || !given.every((word) => (OBJECT_TYPES as readonly string[]).includes(word))) {
    throw new BadParameter(name, `one or more of ${OBJECT_TYPES.join(", ")}`);
  }
  return new Set(known.map((type) => WORD_IN_RECORDS[type]));
};
