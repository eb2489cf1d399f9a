/**
 * The filters that can be evaluated on a record alone, and the place of a record under each of them.
 *
 * Numbers are compared as decimal text, because floating point would change large ones. Dates are compared as the text of
 * their day. If a value could only be read by guessing, the record has no place, and nothing is computed.
 */
import { OBJECT_TYPES } from "../../interface/parameters.ts";
import { eachMember, MALFORMED, skipSpace, textAt } from "../json-ranges.ts";

/**
 * Where a record lies under a filter: `at` is exactly on a bound, `unset` is without the value. The interface does not say
 * whether a bound belongs to the result, so that is learned.
 */
export type Place = "inside" | "outside" | "at" | "unset";

/** The members of a record that filters need, as raw JSON. */
type RecordMembers = ReadonlyMap<string, string>;

/** A filter with its value. */
export interface FilterTest {
  readonly name: string;
  readonly value: string;
  /** The member of a record that it tests. */
  readonly member: string;
  /** @returns `undefined` if the record cannot be judged */
  readonly placeOf: (members: RecordMembers) => Place | undefined;
}

type Compare = (value: string, bound: string) => number;

/** What a filter compares: a member of the record, and how. */
interface Attribute {
  readonly member: string;
  /** @returns the comparable text of raw JSON; `undefined` if it is not as expected */
  readonly read: (raw: string) => string | undefined;
  readonly compare: Compare;
}

const number = (member: string): Attribute => ({ member, read: readNumber, compare: compareDecimals });
const day = (member: string): Attribute => ({ member, read: readDay, compare: compareTexts });

/** By the name of the parameter without `min` or `max`. */
const ATTRIBUTES: Readonly<Record<string, Attribute>> = {
  ListPrice: number("listPrice"),
  SoldPrice: number("soldPrice"),
  Rooms: number("rooms"),
  LivingArea: number("livingArea"),
  Rent: number("rent"),
  ConstructionYear: number("constructionYear"),
  Published: day("published"),
  SoldDate: day("soldDate"),
};

/** @returns the filter as a test of records; `undefined` if a record alone does not decide it */
export function filterTest(name: string, value: string): FilterTest | undefined {
  if (name === "objectType") return typeTest(value);
  if (name === "bbox") return boxTest(value);
  const attribute = ATTRIBUTES[name.slice(3)];
  const direction = { min: 1, max: -1 }[name.slice(0, 3)];
  if (attribute === undefined || direction === undefined || !isShort(value)) return undefined;
  const { member, read, compare } = attribute;
  return {
    name,
    value,
    member,
    placeOf(members) {
      const raw = members.get(member);
      if (raw === undefined) return "unset";
      const text = read(raw);
      return text === undefined ? undefined : placeBy(compare(text, value) * direction);
    },
  };
}

function placeBy(order: number): Place {
  if (order === 0) return "at";
  return order > 0 ? "inside" : "outside";
}

function typeTest(value: string): FilterTest {
  const wanted = new Set(value.split(","));
  return {
    name: "objectType",
    value,
    member: "objectType",
    placeOf(members) {
      const raw = members.get("objectType");
      if (raw === undefined) return "unset";
      const type = typeIn(raw);
      if (type === undefined) return undefined;
      return wanted.has(type) ? "inside" : "outside";
    },
  };
}

/** @returns the documented word for the type in a record: `Tomt/Mark` is `tomt-mark` */
function typeIn(raw: string): string | undefined {
  if (!/^"[^"]*"$/.test(raw)) return undefined;
  const word = String(JSON.parse(raw)).normalize("NFC").toLowerCase().replace("/", "-");
  return OBJECT_TYPES.find((type) => type === word);
}

function boxTest(value: string): FilterTest | undefined {
  const [south = "", west = "", north = "", east = ""] = value.split(",");
  // The interface does not define a box with swapped corners.
  if (compareDecimals(south, north) >= 0 || compareDecimals(west, east) >= 0) return undefined;
  return {
    name: "bbox",
    value,
    member: "location",
    placeOf(members) {
      const position = positionIn(members.get("location"));
      if (position === undefined) return undefined;
      const { latitude, longitude } = position;
      const places = new Set([
        placeBy(compareDecimals(latitude, south)),
        placeBy(compareDecimals(north, latitude)),
        placeBy(compareDecimals(longitude, west)),
        placeBy(compareDecimals(east, longitude)),
      ]);
      if (places.has("outside")) return "outside";
      return places.has("at") ? "at" : "inside";
    },
  };
}

function positionIn(location: string | undefined): { latitude: string; longitude: string } | undefined {
  const position = location && membersOf(Buffer.from(location, "latin1"), 0, new Set(["position"]));
  const raw = position ? position.get("position") : undefined;
  const corner = raw && membersOf(Buffer.from(raw, "latin1"), 0, new Set(["latitude", "longitude"]));
  if (!corner) return undefined;
  const [latitude, longitude] = ["latitude", "longitude"].map((name) => readNumber(corner.get(name) ?? ""));
  return latitude === undefined || longitude === undefined ? undefined : { latitude, longitude };
}

/**
 * @param at where the object begins
 * @returns the wanted members of an object as raw JSON; `undefined` if one occurs twice, or the bytes are not an object
 */
export function membersOf(bytes: Buffer, at: number, wanted: ReadonlySet<string>): RecordMembers | undefined {
  const members = new Map<string, string>();
  let isClear = true;
  const end = eachMember(bytes, skipSpace(bytes, at), (nameAt, valueAt) => {
    const name = textAt(bytes, nameAt);
    // A name with an escape may equal a wanted name.
    if (name.includes("\\")) isClear = false;
    if (!wanted.has(name)) return;
    if (members.has(name)) isClear = false;
    members.set(name, textAt(bytes, valueAt));
  });
  return end === MALFORMED || !isClear ? undefined : members;
}

/** A number without an exponent. */
function readNumber(raw: string): string | undefined {
  return /^-?\d+(?:\.\d+)?$/.test(raw) ? raw : undefined;
}

/** Reads `YYYY-MM-DD`, with or without a time of day. @returns `YYYYMMDD` */
function readDay(raw: string): string | undefined {
  const [, year, month, date] = /^"(\d{4})-(\d{2})-(\d{2})(?: \d{2}:\d{2}:\d{2})?"$/.exec(raw) ?? [];
  return year === undefined ? undefined : `${year}${month}${date}`;
}

/** The upstream may round longer numbers. */
function isShort(value: string): boolean {
  return /^-?\d{1,15}(?:\.\d{1,15})?$/.test(value);
}

function compareTexts(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

const DECIMAL = /^(-?)0*(\d+?)(?:\.(\d+?)0*)?$/;

/** Compares two decimal numbers, of any length, as text. */
export function compareDecimals(one: string, other: string): number {
  const [a, b] = [decimalIn(one), decimalIn(other)];
  if (a.sign !== b.sign) return a.sign - b.sign;
  const order =
    a.whole.length - b.whole.length || compareTexts(a.whole, b.whole) || compareTexts(a.part, b.part);
  return order * a.sign;
}

/** @returns the sign, and the digits before and after the point, without redundant zeros */
function decimalIn(text: string): { sign: number; whole: string; part: string } {
  const [, minus, whole = "0", fraction = ""] = DECIMAL.exec(text) ?? [];
  const part = fraction === "0" ? "" : fraction;
  const isZero = whole === "0" && part === "";
  return { sign: minus === "-" && !isZero ? -1 : 1, whole, part };
}
