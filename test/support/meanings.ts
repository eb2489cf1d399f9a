/**
 * Meanings and their spellings: what a caller can want, and the many ways callers write it.
 *
 * Written from the interface's tables, independently of the gateway's own canonicaliser, so that the
 * two can be held against each other.
 */
import {
  OBJECT_TYPES,
  PARAMETERS,
  type Parameter,
  type Shape,
  type TuplePart,
} from "../../src/interface/parameters.ts";
import { SEARCH_RESOURCES, type SearchResource } from "../../src/interface/resources.ts";
import { createRandom, type TestRandom } from "./random.ts";

/** A search and its parameters, documented or not, each in its straightforward spelling. */
export interface Meaning {
  readonly resource: SearchResource;
  readonly parameters: ReadonlyMap<string, string>;
}

/** The same seed gives the same meaning. */
export function randomMeaning(seed: number): Meaning {
  const random = createRandom(seed);
  const resource = random.pick(SEARCH_RESOURCES);
  const parameters = new Map<string, string>();
  for (const parameter of PARAMETERS[resource]) {
    if (!random.chance(0.12)) continue;
    const value = randomValue(parameter, random);
    if (value !== parameter.sameAsAbsent) parameters.set(parameter.name, value);
  }
  for (const [name, value] of parameters) {
    const upper = name.replace(/^min/, "max");
    const highest = parameters.get(upper) ?? value;
    if (Number(value) > Number(highest)) parameters.set(name, highest).set(upper, value);
  }
  if (!parameters.has("center")) parameters.delete("dim");
  if (parameters.has("lat") !== parameters.has("lng")) {
    parameters.set("lat", parameters.get("lat") ?? "59.3");
    parameters.set("lng", parameters.get("lng") ?? "18.05");
  }
  if (random.chance(0.15)) parameters.set(random.pick(UNDOCUMENTED), random.pick(["", " ", "1", ...TEXTS]));
  return { resource, parameters };
}

/** Names the interface may know one day; some look like names it knows, some like things of JavaScript. */
const UNDOCUMENTED = ["Q", "areaIds", "areaId[]", "__proto__", "constructor", "från & till", "="];

const TEXTS = [
  "Nacka",
  "nacka",
  "Södermalm",
  "Gård & sjö",
  "a&limit=5",
  "q=1",
  "100%",
  "%26limit%3D5",
  "a+b",
  "två  blanksteg",
  "#1?x=y",
  "{a}*",
  "}",
  '"\\"',
  "a,b",
  "a, b",
  "03",
  "Null",
  "İstanbul",
  "istanbul",
  "🏠",
  "e\u0301x\u0338".normalize("NFC"),
];

/** Characters that mean something somewhere, and some that only mean themselves. With a digit, a text might look like a key. */
const LETTERS = ["a", "A", "å", "\u0308", " ", "&", "=", "%", "+", ",", "?", "#", "/", ";", "'", "🏠"];

/** Some text or other, composed and without blanks around it; `x` keeps it from saying nothing. */
function randomText(random: TestRandom): string {
  const letters = Array.from({ length: random.between(1, 6) }, () => random.pick(LETTERS));
  return `x${letters.join("")}`.normalize("NFC").trim();
}

function randomValue({ name, shape }: Parameter, random: TestRandom): string {
  switch (shape.kind) {
    case "text":
      return random.chance(0.5) ? random.pick(TEXTS) : randomText(random);
    case "switch":
      return random.pick(["0", "1"]);
    case "date":
      return `20${random.between(10, 26)}${random.pick(["01", "09", "12"])}${random.between(10, 28)}`;
    case "idSet":
      return [...new Set(random.some([1, 2, 76, 100, 4711]))].sort((a, b) => a - b).join(",");
    case "wordSet": {
      const words = random.some(OBJECT_TYPES);
      return OBJECT_TYPES.filter((word) => words.includes(word)).join(",");
    }
    case "tuple":
      return randomTuple(name, shape.parts, random);
    case "decimal":
      return decimal(random, shape.min ?? 0, shape.max ?? 200);
    case "integer": {
      if (shape.max === undefined && random.chance(0.2))
        return random.pick(["0", "-5", "999999999999998", "999999999999999"]);
      return String(random.between(name === "offset" ? 1 : 0, Math.min(shape.max ?? 5_000_000, 5_000_000)));
    }
  }
}

function randomTuple(name: string, parts: readonly TuplePart[], random: TestRandom): string {
  const values = parts.map((part) => decimal(random, part.min ?? 0, Math.min(part.max ?? 9000, 9000)));
  return (name === "bbox" ? cornersInOrder(values) : values).join(",");
}

/** The south-west corner first. */
function cornersInOrder([south, west, north, east]: readonly string[]): (string | undefined)[] {
  const [low, high] = Number(south) > Number(north) ? [north, south] : [south, north];
  const [left, right] = Number(west) > Number(east) ? [east, west] : [west, east];
  return [low, left, high, right];
}

/** Without trailing zeros, as one would write it. */
function decimal(random: TestRandom, min: number, max: number): string {
  const digits = random.pick([0, 1, 1, 4]);
  // The sum has no minus before a zero.
  return String(
    Number((random.between(min * 10 ** digits, max * 10 ** digits) / 10 ** digits).toFixed(digits)) + 0,
  );
}

/** The straightforward way to ask for a meaning, as the interface documents it. */
export function plainTarget({ resource, parameters }: Meaning): string {
  const query = [...parameters]
    .map((pair) => pair.map((text) => encodeURIComponent(text)).join("="))
    .join("&");
  return query === "" ? `/${resource}` : `/${resource}?${query}`;
}

/** One of the many ways in which callers write a meaning. The same seed gives the same one. */
export function spell({ resource, parameters }: Meaning, seed: number): string {
  const random = createRandom(seed);
  const table: readonly Parameter[] = PARAMETERS[resource];
  const pairs: [string, string][] = [];
  for (const [name, value] of parameters) {
    const parameter = table.find((candidate) => candidate.name === name);
    // For undocumented parameters it is not known which values mean the same.
    const spellings = parameter ? spellParameter(parameter, value, random) : [value];
    for (const written of spellings) pairs.push([blanksAround(name, random), written]);
  }
  pairs.push(...noise(table, parameters, random));
  // Values of one name may come in any order: lists are sets, and repeats of a scalar are equal.
  const written = pairs.map(([name, value]) => `${encode(name, random)}=${encode(value, random)}`);
  const query = random.shuffled([
    ...written,
    ...(random.chance(0.2) ? [random.pick(NAMELESS_OR_BROKEN)] : []),
  ]);
  const separators = random.pick(["?", "?", "?", "?&", "&", "??"]);
  const path = random.pick(["/", "//"]) + encode(resource, random) + random.pick(["", "", "/", "//"]);
  const target = (random.chance(0.1) ? "http://old.example:8080" : "") + path;
  return query.length === 0 && random.chance(0.5)
    ? target
    : target + separators + query.join(random.pick(["&", "&&"]));
}

/** Parts of a query string that say nothing, although there is no right way to read them. */
const NAMELESS_OR_BROKEN = ["=1", "%20=x", "=", "unique=%FF%00%fe", "hash=%zz", "_=100%", "HASH[%0A]=x"];

/** A value in one of its spellings, in several where the parameter is repeated; some may say nothing. */
function spellParameter({ shape }: Parameter, value: string, random: TestRandom): string[] {
  const isSet = shape.kind === "idSet" || shape.kind === "wordSet";
  const spellings = isSet
    ? spellSet(value.split(","), shape.kind === "idSet", random)
    : Array.from({ length: random.pick([1, 1, 1, 2]) }, () =>
        blanksAround(spellOnce(shape, value, random), random),
      );
  return random.chance(0.1) ? [...spellings, random.pick(UNSET)] : spellings;
}

/** What sloppy clients send where they have no value. */
const UNSET = ["", " ", "undefined", "null", " NaN "];

function spellOnce(shape: Shape, value: string, random: TestRandom): string {
  switch (shape.kind) {
    case "text":
      return random.pick([value, value.normalize("NFD")]);
    case "switch":
      return random.pick(value === "1" ? ["1", "true", "True", "1.0", "+1"] : ["0", "false", "FALSE", "-0"]);
    case "date":
      return random.pick([value, `${value.slice(0, 4)}-${value.slice(4, 6)}-${value.slice(6)}`]);
    case "integer":
    case "decimal":
      return spellNumber(value, random);
    case "idSet":
    case "wordSet":
    case "tuple":
      return value
        .split(",")
        .map((part) => blanksAround(spellNumber(part, random), random))
        .join(",");
  }
}

function spellNumber(value: string, random: TestRandom): string {
  const negative = value.startsWith("-");
  const digits = negative ? value.slice(1) : value;
  const longer = digits.includes(".")
    ? `${digits}${random.pick(["", "0", "00"])}`
    : `${digits}${random.pick(["", "", ".0", "."])}`;
  if (longer.startsWith("0.") && longer.length > 2 && random.chance(0.3))
    return `${negative ? "-" : ""}${longer.slice(1)}`;
  const sign = negative ? "-" : random.pick(["", "", "+", ...(digits === "0" ? ["-"] : [])]);
  return sign + random.pick(["", "", "0", "00"]) + longer;
}

/** Any order, repeats, repeated keys, blanks, items that say nothing, and for words any case. */
function spellSet(items: readonly string[], areNumbers: boolean, random: TestRandom): string[] {
  const written = random
    .shuffled([...items, ...random.some([...items])])
    .map((item) =>
      areNumbers ? spellNumber(item, random) : random.pick([item, item.toUpperCase(), item.normalize("NFD")]),
    )
    .map((item) => blanksAround(item, random));
  if (random.chance(0.1)) written.splice(random.between(0, written.length), 0, random.pick(UNSET));
  const cut = random.between(0, written.length - 1);
  const parts = cut === 0 ? [written] : [written.slice(0, cut), written.slice(cut)];
  return parts.map((part) => random.pick(["", "", ","]) + part.join(","));
}

function blanksAround(text: string, random: TestRandom): string {
  return random.pick(["", "", "", " ", "\t"]) + text + random.pick(["", "", "", " ", "  ", "\u00a0", "\r\n"]);
}

/** What says nothing: unset values, defaults, signatures, ignored names, `dim` without `center`. */
function noise(
  table: readonly Parameter[],
  given: ReadonlyMap<string, string>,
  random: TestRandom,
): [string, string][] {
  const unset = random.some(table.filter(({ name }) => !given.has(name)));
  const pairs = unset.map(({ name, sameAsAbsent }): [string, string] => [
    name,
    random.pick([...UNSET, sameAsAbsent ?? ""]),
  ]);
  if (table.some(({ name }) => name === "dim") && !given.has("center") && random.chance(0.2))
    pairs.push(["dim", "100,200"]);
  const credentials: [string, string][] = [
    ["callerId", "old-client"],
    ["time", String(random.between(0, 9_999_999))],
    ["unique", "whatever"],
    ["unique[]", "a&b"],
    ["hash", "0123456789abcdef0123456789abcdef01234567"],
    [" Hash", "ABC"],
    ["_", "1700000000"],
    ["key", "a-key-sent-by-mistake"],
  ];
  return [...pairs, ...random.some(credentials)];
}

/** Percent-encodes what must be, and some of what need not be, in either case of hex. */
function encode(text: string, random: TestRandom): string {
  return [...new TextEncoder().encode(text)]
    .map((byte) => {
      const character = String.fromCharCode(byte);
      if (byte === 0x20) return random.pick(["+", "%20"]);
      if (/[A-Za-z0-9,._~:-]/.test(character) && !random.chance(0.1)) return character;
      const hex = byte.toString(16).padStart(2, "0");
      return `%${random.pick([hex, hex.toUpperCase()])}`;
    })
    .join("");
}
