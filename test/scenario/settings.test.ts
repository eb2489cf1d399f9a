import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

import { expect, it } from "vitest";

import { cacheStatus } from "../support/ask.ts";
import { command } from "../support/command.ts";
import { fileWith } from "../support/files.ts";
import { EXACT_PAGES, gatewayEnv, startGateway } from "../support/gateway.ts";

it("the lifetime of an answer ends early if memory is full, the least recently used answer first (cache.maxBytes)", async () => {
  const gateway = await startGateway({ settings: "cache: { maxBytes: 1MiB }", env: EXACT_PAGES });
  const path = (n: number): string => `/listings?limit=100&offset=${n}`;
  await gateway.get(path(0));
  for (let n = 1; n < 25; n++) {
    expect((await gateway.get(path(n))).status).toBe(200);
    // Used again and again, it stays.
    expect(cacheStatus(await gateway.get(path(0)))).toMatchObject({ hit: true });
  }
  expect(await gateway.metric('gateway_cache_bytes{tier="memory"}')).toBeLessThanOrEqual(1_048_576);
  expect(await gateway.metric('gateway_cache_evictions_total{tier="memory"}')).toBeGreaterThan(0);
  expect(cacheStatus(await gateway.get(path(1)))).toMatchObject({ fwd: "miss" });
  // What would take the place of many others is passed on and not kept.
  const giant = await gateway.get("/listings?limit=500");
  expect([giant.status, cacheStatus(giant)]).toEqual([200, expect.objectContaining({ detail: "too-large" })]);
  expect(cacheStatus(giant)["stored"]).toBeUndefined();
  expect(cacheStatus(await gateway.get(path(0)))).toMatchObject({ hit: true });
});

it("with watchSettings, a changed file is read; one with mistakes, which may end later, or a deleted one changes nothing", async () => {
  const env = { BUDGET: "", WATCH_SETTINGS: "true" };
  let settings: string | undefined = "budget: { limit: 1000000/1m }";
  const gateway = await startGateway({ settings: () => settings ?? readFileSync("/nowhere", "utf8"), env });
  settings = "budget: { limit: 10/1m }";
  expect(await gateway.logged("are in force")).toMatchObject({ by: "file" });
  expect((await gateway.get("/areas?q=b")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
  settings = "budget: { limit: many }";
  expect(await gateway.logged("Reload failed")).toMatchObject({ by: "file", result: "invalid" });
  const tokenFile = `${fileWith("", "mine.yaml")}.token`;
  settings = `budget: { limit: 20/1m }\napps: [{ id: web, tokenFile: "${tokenFile}" }]`;
  expect(await gateway.logged("Reload failed", "tokenFile")).toMatchObject({ by: "file", result: "invalid" });
  expect((await gateway.get("/areas?q=c")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
  expect(await gateway.metric("gateway_config_last_reload_successful")).toBe(0);
  writeFileSync(tokenFile, "a-token-of-the-app-web-0123456789");
  expect(await gateway.logged("are in force", "20/1m")).toMatchObject({ by: "file" });
  settings = "warm: [{ url: /nowhere }]";
  expect(await gateway.logged("Reload failed", "warm")).toMatchObject({ by: "file", result: "invalid" });
  await setTimeout(2_500);
  expect(gateway.log.filter((line) => line.includes("nowhere"))).toHaveLength(1);
  settings = undefined;
  expect(await gateway.logged("cannot be read (ENOENT)")).toMatchObject({ by: "file", result: "invalid" });
});

/** unit/config/settings.txt has every message. */
it.each(["gateway", "config-check"])("%s refuses wrong settings with one line for each", async (name) => {
  const file = fileWith("cache:\n  ttl: { listings: 5 minutes }\nsever: { port: 80 }\n", "mine.yaml");
  const { code, output } = await command([name], { ...gatewayEnv(), CONFIG_FILE: file, BUDGET: "many" });
  const lines = output.split("\n").filter((line) => !/^$|^the configuration is not valid:$/.test(line));
  expect(code).toBe(1);
  expect(lines).toEqual([
    expect.stringContaining(`${file}:3: sever: unknown setting; did you mean server?`),
    expect.stringContaining(`${file}:2: cache.ttl.listings: found "5 minutes"; expected `),
    expect.stringMatching(/^ *environment variable BUDGET: budget\.limit: .*60\/1m/),
  ]);
});
