/** What the gateway reads in the headers of requests: headers.txt. */
import { describe, expect, it, onTestFinished, vi } from "vitest";

import { Problem } from "../../../src/errors.ts";
import { elementsOf, httpDateMs, secondsIn } from "../../../src/http-fields.ts";
import {
  deadlineOf,
  directivesOf,
  negotiateCoding,
  negotiateFormat,
} from "../../../src/http/request-headers.ts";
import { noneMatchNames } from "../../../src/http/response-headers.ts";
import { sectionsOf, unescaped } from "../../support/table.ts";

const SERVICE = "PropertyService";
const MAX_WAIT_MS = 10_000;

type Read = (text: string | undefined) => string | number | boolean | undefined;

const READERS: Readonly<Record<string, Read>> = {
  "Accept, of a search": (text = "") => negotiateFormat(text, false, SERVICE),
  "Accept, of a thumbnail": (text = "") => negotiateFormat(text, true, SERVICE),
  "Accept-Encoding": (text = "") => negotiateCoding(text),
  "If-None-Match, with the tag abc_-123": (text = "") => noneMatchNames(text, "abc_-123"),
  "Deadlines: milliseconds, and Preference-Applied"(text) {
    try {
      const { waitMs, preferenceApplied = "" } = deadlineOf(headersIn(text), MAX_WAIT_MS);
      return `${waitMs} ${preferenceApplied}`.trim();
    } catch (error) {
      if (!(error instanceof Problem && error.code === "malformed-request")) throw error;
      return error.details.detail;
    }
  },
  "Cache directives of a request"(text) {
    const read = Object.entries(directivesOf(headersIn(text)));
    const others = read.filter(([, value]) => value !== undefined && value !== false);
    return JSON.stringify(
      Object.fromEntries(others.map(([name, value]) => [name, value === Infinity ? "any" : value])),
    );
  },
  "A list": (text = "") => JSON.stringify(Object.fromEntries(elementsOf(text))),
  "Seconds, in milliseconds": secondsIn,
  "A date, read at 2026-01-15T12:00:00Z": (text) => instantOf(text, "2026-01-15T12:00:00Z"),
  "A date, read at 2095-01-01T00:00:00Z": (text) => instantOf(text, "2095-01-01T00:00:00Z"),
};

const readerOf = (title: string): Read => READERS[title] ?? expect.unreachable(`no reader for ${title}`);

function headersIn(text = ""): Record<string, string> {
  const pairs = text.split(" & ").map((header) => /^([a-z-]+): (.*)$/.exec(header) ?? []);
  return Object.fromEntries(pairs.flatMap(([, name, value]) => (name ? [[name, textOf(value) ?? ""]] : [])));
}

function instantOf(text: string | undefined, now: string): string | undefined {
  // On a machine in GMT, a date that is read in the wrong zone would go unnoticed.
  vi.stubEnv("TZ", "America/St_Johns");
  onTestFinished(() => void vi.unstubAllEnvs());
  const ms = httpDateMs(text, Date.parse(now));
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

function textOf(written = "absent"): string | undefined {
  if (written === "absent") return undefined;
  return written === "empty" ? "" : unescaped(written.replaceAll("·", " "));
}

describe.each(sectionsOf(new URL("headers.txt", import.meta.url)))("$title", ({ title, rows }) => {
  it.each(rows)("%s -> %s", (text, meaning) => {
    expect(String(readerOf(title)(textOf(text)) ?? "none")).toBe(textOf(meaning));
  });
});
