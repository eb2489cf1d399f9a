import { describe, expect, it } from "vitest";

import { mergeSources, type SettingSources } from "../../../src/config/sources.ts";
import { parseSettingsFile } from "../../../src/config/yaml-file.ts";

const DEFAULTS = parseSettingsFile(
  "default.yaml",
  `cache:
  ttl:
    listings: 5m
    sold: 1h
  retention: 48h
server: { host: 0.0.0.0, drainTimeout: 10s }
`,
);

function sourcesOf(yaml: string, ...assignments: Parameters<typeof mergeSources>[2]): SettingSources {
  return mergeSources(DEFAULTS, parseSettingsFile("mine.yaml", yaml), assignments);
}

/** From the environment. */
const SOLD_IN_ENV = { variable: "CACHE_TTL", path: ["cache", "ttl", "sold"], value: "2h" } as const;

describe("one duration over a section of durations", () => {
  it("is the source of each of them, unless the environment overrides it", () => {
    const sources = sourcesOf("cache:\n  retention: 1h\n  ttl: 7s\n", SOLD_IN_ENV);
    expect(sources.nameOf(["cache", "ttl", "listings"])).toBe("mine.yaml:3");
    expect(sources.nameOf(["cache", "ttl"])).toBe("mine.yaml:3");
    expect(sources.nameOf(["cache", "ttl", "sold"])).toBe("environment variable CACHE_TTL");
    expect(sources.nameOf(["server", "host"])).toBe("default.yaml:6");
  });

  it("does not change the defaults", () => {
    sourcesOf("cache: { ttl: 7s }", SOLD_IN_ENV);
    expect(sourcesOf("").merged["cache"]).toMatchObject({ ttl: { listings: "5m", sold: "1h" } });
  });

  it.each([
    ["one that is none", "cache: { ttl: 7 seconds }", "cache", { ttl: "7 seconds" }],
    ["a number", "cache: { ttl: 7 }", "cache", { ttl: 7 }],
    ["a list", "cache: { ttl: [7s] }", "cache", { ttl: ["7s"] }],
  ])("is not %s, which is refused later", (_name, yaml, section, expected) => {
    expect(sourcesOf(yaml).merged[section]).toMatchObject(expected);
  });

  it("is not accepted for a section with other settings", () => {
    expect(sourcesOf("server: 7s").merged["server"]).toBe("7s");
    expect(sourcesOf("cache: 7s").merged["cache"]).toBe("7s");
  });
});
