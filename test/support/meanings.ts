/**
 * Meanings and their spellings: what a caller can want, and the many ways callers write it.
 *
 * Written from the interface's tables, independently of the gateway's own canonicaliser, so that the
 * two can be held against each other.
 */
import { OBJECT_TYPES, PARAMETERS, type Parameter } from "../../src/interface/parameters.ts";
import { SEARCH_RESOURCES, type SearchResource } from "../../src/interface/resources.ts";
import { createDice, type Dice } from "./dice.ts";

/** A search and its parameters, each in the documented spelling. */
export interface Meaning {
  readonly resource: SearchResource;
  readonly parameters: ReadonlyMap<string, string>;
}

/** Pairwise different meanings. The same seed gives the same ones. */
export function randomMeanings(seed: number, count: number): Meaning[] {
  const dice = createDice(seed);
  const meanings = new Map<string, Meaning>();
  while (meanings.size < count) {
    const meaning = randomMeaning(dice);
    meanings.set(identityOf(meaning), meaning);
  }
  return [...meanings.values()];
}

/** Two meanings are the same if and only if these texts are. */
export function identityOf({ resource, parameters }: Meaning): string {
  return JSON.stringify([resource, [...parameters].sort(([a], [b]) => (a < b ? -1 : 1))]);
}

function randomMeaning(dice: Dice): Meaning {
  const resource = dice.pick(SEARCH_RESOURCES);
  const parameters = new Map<string, string>();
  for (const parameter of PARAMETERS[resource]) {
    if (!dice.chance(0.12)) continue;
    const value = randomValue(parameter, dice);
    if (value !== parameter.sameAsAbsent) parameters.set(parameter.name, value);
  }
  if (!parameters.has("center")) parameters.delete("dim");
  if (parameters.has("lat") !== parameters.has("lng")) {
    parameters.set("lat", parameters.get("lat") ?? "59.3");
    parameters.set("lng", parameters.get("lng") ?? "18.05");
  }
  return { resource, parameters };
}

const TEXTS = [
  "Nacka",
  "nacka",
  "Södermalm",
  "Gård & sjö",
  "a&limit=5",
  "q=1",
  "100%",
  "a+b",
  "två  blanksteg",
  "#1?x=y",
  "{a}*",
];

function randomValue({ name, shape }: Parameter, dice: Dice): string {
  switch (shape.kind) {
    case "text":
      return dice.pick(TEXTS);
    case "switch":
      return dice.pick(["0", "1"]);
    case "date":
      return `20${dice.between(10, 26)}0${dice.between(1, 9)}${dice.between(10, 28)}`;
    case "idSet":
      return [...new Set(dice.some([1, 2, 76, 100, 4711]))].sort((a, b) => a - b).join(",");
    case "wordSet":
      return OBJECT_TYPES.filter((word) => dice.some([...OBJECT_TYPES]).includes(word)).join(",") || "villa";
    case "tuple":
      return shape.parts
        .map((part) => decimal(dice, part.min ?? 0, Math.min(part.max ?? 9000, 9000)))
        .join(",");
    case "decimal":
      return decimal(dice, shape.min ?? 0, shape.max ?? 200);
    case "integer":
      return String(dice.between(name === "offset" ? 1 : 0, Math.min(shape.max ?? 5_000_000, 5_000_000)));
  }
}

/** Without trailing zeros, as one would write it. */
function decimal(dice: Dice, min: number, max: number): string {
  return String(Number((dice.between(min * 10, max * 10) / 10).toFixed(1)));
}

/** The straightforward way to ask for a meaning, as the interface documents it. */
export function plainTarget({ resource, parameters }: Meaning): string {
  const query = [...parameters].map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  return query === "" ? `/${resource}` : `/${resource}?${query}`;
}

/** One of the many ways in which callers write a meaning. The same seed gives the same one. */
export function spell({ resource, parameters }: Meaning, seed: number): string {
  const dice = createDice(seed);
  const table: readonly Parameter[] = PARAMETERS[resource];
  const pairs: [string, string][] = [];
  for (const [name, value] of parameters) {
    const parameter = table.find((candidate) => candidate.name === name);
    if (parameter) for (const written of spellValue(parameter, value, dice)) pairs.push([name, written]);
  }
  pairs.push(...noise(table, parameters, dice));
  // Values of one name may come in any order: lists are sets, and repeats of a scalar are equal.
  const query = dice.shuffled(pairs).map(([name, value]) => `${encode(name, dice)}=${encode(value, dice)}`);
  const separators = dice.pick(["?", "?", "?", "?&", "&", "??"]);
  const path = dice.pick(["/", "//"]) + resource + dice.pick(["", "", "/", "//"]);
  return query.length === 0 && dice.chance(0.5)
    ? path
    : path + separators + query.join(dice.pick(["&", "&&"]));
}

/** A value in one of its spellings; several where the parameter is repeated. */
function spellValue({ shape }: Parameter, value: string, dice: Dice): string[] {
  switch (shape.kind) {
    case "text":
      return [blanksAround(dice.pick([value, value.normalize("NFD")]), dice)];
    case "switch":
      return [
        blanksAround(value === "1" ? dice.pick(["1", "true", "True"]) : dice.pick(["0", "false"]), dice),
      ];
    case "date":
      return [dice.pick([value, `${value.slice(0, 4)}-${value.slice(4, 6)}-${value.slice(6)}`])];
    case "integer":
    case "decimal":
      return Array.from({ length: dice.pick([1, 1, 2]) }, () => blanksAround(spellNumber(value, dice), dice));
    case "tuple":
      return [
        value
          .split(",")
          .map((part) => blanksAround(spellNumber(part, dice), dice))
          .join(","),
      ];
    case "idSet":
    case "wordSet":
      return spellSet(value.split(","), shape.kind === "idSet", dice);
  }
}

function spellNumber(value: string, dice: Dice): string {
  const negative = value.startsWith("-");
  const digits = negative ? value.slice(1) : value;
  const longer = digits.includes(".")
    ? `${digits}${dice.pick(["", "0", "00"])}`
    : `${digits}${dice.pick(["", "", ".0", "."])}`;
  return (negative ? "-" : dice.pick(["", "", "+"])) + dice.pick(["", "", "0", "00"]) + longer;
}

/** Any order, repeats, repeated keys, blanks, empty items, and for words any case. */
function spellSet(items: readonly string[], areNumbers: boolean, dice: Dice): string[] {
  const written = dice
    .shuffled([...items, ...dice.some([...items])])
    .map((item) =>
      areNumbers ? spellNumber(item, dice) : dice.pick([item, item.toUpperCase(), item.normalize("NFD")]),
    )
    .map((item) => blanksAround(item, dice));
  const cut = dice.between(0, written.length - 1);
  const parts = cut === 0 ? [written] : [written.slice(0, cut), written.slice(cut)];
  return parts.map((part) => dice.pick(["", "", ","]) + part.join(","));
}

function blanksAround(text: string, dice: Dice): string {
  return dice.pick(["", "", "", " "]) + text + dice.pick(["", "", "", " ", "  "]);
}

/** What says nothing: unset values, defaults, signatures, ignored names, `dim` without `center`. */
function noise(
  table: readonly Parameter[],
  given: ReadonlyMap<string, string>,
  dice: Dice,
): [string, string][] {
  const unset = dice.some(table.filter(({ name }) => !given.has(name)));
  const pairs = unset.map(({ name, sameAsAbsent }): [string, string] => [
    name,
    dice.pick(["", " ", "undefined", "null", "NaN", sameAsAbsent ?? ""]),
  ]);
  if (table.some(({ name }) => name === "dim") && !given.has("center") && dice.chance(0.2))
    pairs.push(["dim", "100,200"]);
  const credentials: [string, string][] = [
    ["callerId", "old-client"],
    ["time", String(dice.between(0, 9_999_999))],
    ["unique", "whatever"],
    ["hash", "0123456789abcdef0123456789abcdef01234567"],
    ["Hash", "ABC"],
    ["_", "1700000000"],
    ["key", "a-key-sent-by-mistake"],
  ];
  return [...pairs, ...dice.some(credentials)];
}

/** Percent-encodes what must be, and some of what need not be, in either case of hex. */
function encode(text: string, dice: Dice): string {
  return [...new TextEncoder().encode(text)]
    .map((byte) => {
      const character = String.fromCharCode(byte);
      if (byte === 0x20) return dice.pick(["+", "%20"]);
      if (/[A-Za-z0-9,._~:-]/.test(character) && !dice.chance(0.1)) return character;
      const hex = byte.toString(16).padStart(2, "0");
      return `%${dice.pick([hex, hex.toUpperCase()])}`;
    })
    .join("");
}
