import { fileURLToPath } from "node:url";

import * as z from "zod";

import { checkSettings, type SettingFault } from "./check.ts";
import { describeFault } from "./report.ts";
import { shaped } from "./setting.ts";
import { duration, oneOf } from "./shapes.ts";
import { mergeSources } from "./sources.ts";
import { parseSettingsFile } from "./yaml-file.ts";

/** One URL to keep warm, as it is written in the list. */
export interface WarmUrl {
  /** Path and query, as a caller writes them. */
  readonly url: string;
  /** The interval between fetches, in milliseconds; `null`: the answer is fetched shortly before it expires. */
  readonly everyMs: number | null;
  /** The app whose share of the budget pays. */
  readonly app: string;
  readonly format: "json" | "v2";
  /** Its file and line, for messages: `warm.yaml:7`. */
  readonly place: string;
}

const YEAR_MS = 365 * 86_400_000;

const item = z.strictObject({
  url: shaped(z.string().regex(/^\/\S*$/), { expected: "a path and query, such as /listings?areaId=76" }),
  every: shaped(duration({ minMs: 1_000, maxMs: YEAR_MS }).nullable().default(null), {
    expected: "a duration from 1s on, such as 5m",
  }),
  app: shaped(z.string().min(1).default("other"), { expected: "the id of an app" }),
  format: shaped(oneOf("json", "v2").default("json"), { expected: "one of json, v2" }),
});

const list = z.strictObject({
  urls: shaped(z.array(item), { expected: "a list of URLs, each as `- url: /listings?areaId=76`" }),
});

const DEFAULT_FILE = fileURLToPath(new URL("../../config/warm.yaml", import.meta.url));

/**
 * Reads the list of URLs to keep warm.
 * @param path `null`: config/warm.yaml of this project
 * @returns the URLs, and one line for each problem; no URLs if there are problems
 */
export function readWarmList(
  path: string | null,
  readFile: (path: string) => string,
): { readonly urls: readonly WarmUrl[]; readonly problems: readonly string[] } {
  const name = path ?? DEFAULT_FILE;
  let text;
  try {
    text = readFile(name);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    return { urls: [], problems: [`warm.file: ${JSON.stringify(name)} cannot be read${code}`] };
  }
  const file = parseSettingsFile(name, text);
  // The content of the file is not known.
  if (file.problems.length > 0) return { urls: [], problems: file.problems };
  const sources = mergeSources(file, undefined, []);
  const faults: SettingFault[] = [];
  const read = checkSettings(list, sources.merged, [], faults);
  const problems = faults.map((fault) => describeFault(fault, sources));
  const checked = list.safeParse(sources.merged);
  if (problems.length > 0 || read === undefined || !checked.success) return { urls: [], problems };
  const urls = checked.data.urls.map(({ every, ...rest }, index) => ({
    ...rest,
    everyMs: every,
    place: sources.nameOf(["urls", index]),
  }));
  return { urls, problems: [] };
}
