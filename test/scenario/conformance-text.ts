/**
 * Reads the cases of docs/internals/http-cases.txt. The file says how they are written.
 */
import type { Effects } from "../../src/sandbox/faults.ts";
import type {
  Ask,
  Asked,
  Copied,
  Expected,
  FromNow,
  Scenario,
  Step,
  Upstream,
} from "./conformance-vocabulary.ts";

export function readCases(text: string): Scenario[] {
  const paths = new Map(
    [...text.matchAll(/^path (\w+) (\S+)$/gm)].map(([, name = "", path = ""]) => [name, path]),
  );
  return text
    .split(/^(?=\d{4}-)/m)
    .slice(1)
    .map((part) => caseIn(part, paths));
}

function caseIn(part: string, paths: ReadonlyMap<string, string>): Scenario {
  const [head = "", ...lines] = part.split("\n").filter((line) => line.trim() !== "");
  const [, id = "", title = ""] = /^(\S+) (.*)$/.exec(head) ?? [];
  const given = new Map<string, unknown>();
  const steps: Step[] = [];
  const together: Ask[] = [];
  for (const line of lines) {
    const [, name = "", json = ""] = /^ {2}(settings|env) (.*)$/.exec(line) ?? [];
    if (name !== "") given.set(name, JSON.parse(json));
    else if (line === "  together") steps.push({ together: together.splice(0) });
    else if (line.startsWith("    ")) {
      const last = steps.at(-1);
      if (last === undefined || !("together" in last)) throw new Error(`${id}: ${line}`);
      steps[steps.length - 1] = { together: [...last.together, askIn(line.trim(), paths)] };
    } else steps.push(stepIn(line.trim(), paths));
  }
  return { id, title, ...Object.fromEntries(given), steps };
}

function stepIn(line: string, paths: ReadonlyMap<string, string>): Step {
  const [word = "", ...words] = line.split(" ");
  const rest = words.join(" ");
  if (word.startsWith("+")) return { pass: Number(word.slice(1)) };
  if (word === "revise") return { revise: true };
  if (word === "purge") return { purge: JSON.parse(rest) };
  if (word === "upstream") return { upstream: upstreamIn(rest) };
  return word === "calls" ? callsIn(rest) : askIn(line, paths);
}

/** `calls 2, has if-none-match, lacks pragma, answered 304` */
function callsIn(text: string): Asked {
  const [asked = "", ...more] = text.split(", ");
  const after = (word: string): string[] =>
    more.flatMap((one) => (one.startsWith(`${word} `) ? [one.slice(word.length + 1)] : []));
  const [has, lacks, [answered]] = [after("has"), after("lacks"), after("answered")];
  return {
    asked: Number(asked),
    ...(has.length > 0 && { has }),
    ...(lacks.length > 0 && { lacks }),
    ...(answered !== undefined && { answeredWith: Number(answered) }),
  };
}

/** `validators=etag [cache-control: max-age=100] fault={"status":500}` */
function upstreamIn(text: string): Upstream {
  const headers = headersIn(text);
  const [, validators] = /validators=([\w-]+)/.exec(text) ?? [];
  const [, fault] = /fault=(\{.*\})$/.exec(text) ?? [];
  const known = (["none", "etag", "last-modified", "both"] as const).find((one) => one === validators);
  const parsed: Effects | undefined = fault === undefined ? undefined : JSON.parse(fault);
  return {
    ...(known !== undefined && { validators: known }),
    ...(Object.keys(headers).length > 0 && {
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, dateIn(value)])),
    }),
    ...(parsed !== undefined && { fault: parsed }),
  };
}

/** `GET A app=desk [cache-control: no-cache] takes=5 as=first eventually -> hit; ttl=300 | age 0` */
function askIn(line: string, paths: ReadonlyMap<string, string>): Ask {
  const at = line.indexOf(" -> ");
  const [request, expected] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 4)];
  const [, method = "GET", path = "", rest = ""] = /^(\w+) (\S+)(.*)$/.exec(request) ?? [];
  const options = rest.replaceAll(/\[[^\]]*\]/g, "");
  const option = (name: string): string | undefined => new RegExp(` ${name}=(\\S+)`).exec(options)?.[1];
  const [app, as, takes, headers] = [option("app"), option("as"), option("takes"), headersIn(rest)];
  const given = Object.entries(headers).map(([name, value]) => [name, copiedIn(value)] as const);
  return {
    ask: paths.get(path) ?? path,
    ...(method !== "GET" && { method }),
    ...(app !== undefined && { app }),
    ...(given.length > 0 && { with: Object.fromEntries(given) }),
    ...(as !== undefined && { as }),
    ...(takes !== undefined && { upstreamTakes: Number(takes) }),
    ...(options.includes(" eventually") && { eventually: true as const }),
    gets: expectedIn(expected),
  };
}

/** `hit; ttl=300 | status 504 | age 0 | max-age 300 | problem code | [name: value] | no name | same as first` */
function expectedIn(text: string): Expected {
  const members = text.split(" | ").map((part): readonly [keyof Expected, unknown] => {
    const [, word = "", value = ""] =
      /^(status|age|max-age|problem|same as|other than|gunzips to) (.*)$/.exec(part) ?? [];
    if (word === "")
      return part.startsWith("[") || part.startsWith("no ") ? ["headers", part] : ["cache", part];
    const name = NAMES[word];
    if (name === undefined) throw new Error(part);
    return [name, ["status", "age", "maxAge"].includes(name) ? Number(value) : value];
  });
  const headers = members.flatMap(([name, part]) => (name === "headers" ? headerIn(String(part)) : []));
  const others = members.filter(([name, value]) => name !== "headers" && value !== "");
  return {
    ...Object.fromEntries(others),
    ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
  };
}

const NAMES: Readonly<Record<string, keyof Expected>> = {
  status: "status",
  age: "age",
  "max-age": "maxAge",
  problem: "problem",
  "same as": "sameBodyAs",
  "other than": "otherBodyThan",
  "gunzips to": "decodesTo",
};

function headerIn(part: string): [string, string | Copied | null][] {
  if (part.startsWith("no ")) return [[part.slice(3), null]];
  return Object.entries(headersIn(part)).map(([name, value]) => [name, copiedIn(value)]);
}

function headersIn(text: string): Record<string, string> {
  const found = [...text.matchAll(/\[([\w-]+): ?([^\]]*)\]/g)];
  return Object.fromEntries(found.map(([, name = "", value = ""]) => [name, value]));
}

/** `<etag of first>` */
function copiedIn(value: string): string | Copied {
  const [, header, of] = /^<([\w-]+) of (\w+)>$/.exec(value) ?? [];
  return header === undefined || of === undefined ? value : { of, header };
}

/** `<now+60>`, or `<now+60 UTC>` with another word than GMT */
function dateIn(value: string): string | FromNow {
  const [, seconds, zone] = /^<now([+-]\d+)(?: (.+))?>$/.exec(value) ?? [];
  if (seconds === undefined) return value;
  return { secondsFromNow: Number(seconds), ...(zone !== undefined && { zone }) };
}
