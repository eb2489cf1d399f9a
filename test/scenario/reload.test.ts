import { writeFileSync } from "node:fs";

import { expect, it } from "vitest";

import { ask } from "../support/ask.ts";
import { fileWith } from "../support/files.ts";
import { startFleet } from "../support/fleet.ts";
import { startGateway } from "../support/gateway.ts";

it("settings are read when the file has changed, with watchSettings; mistakes in it change nothing", async () => {
  const env = { BUDGET: "", WATCH_SETTINGS: "true" };
  let settings = "budget: { limit: 1000000/1m }";
  const gateway = await startGateway({ settings: () => settings, env });
  const write = (next: string): void => void (settings = next);
  write("budget: { limit: 10/1m }");
  expect(await gateway.logged("are in force")).toMatchObject({ by: "file" });
  expect((await gateway.get("/areas?q=b")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
  write("budget: { limit: many }");
  expect(await gateway.logged("Reload failed")).toMatchObject({ by: "file", result: "invalid" });
  expect((await gateway.get("/areas?q=c")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
  expect(await gateway.metric("gateway_config_last_reload_successful")).toBe(0);
});

it("SIGHUP makes a process reload its settings", async () => {
  const CONFIG_FILE = fileWith("cache: { ttl: { areas: 1h } }");
  const fleet = await startFleet({ CONFIG_FILE });
  const replica = await fleet.start();
  writeFileSync(CONFIG_FILE, "cache: { ttl: { areas: 1m } }");
  replica.process.child.kill("SIGHUP");
  await replica.process.says(/"by":"SIGHUP","changes":\["cache.ttl.areas: 1h → 1m"\]/);
  expect((await ask(`${replica.url}/areas?q=a`)).headers["cache-control"]).toMatch(/max-age=(5\d|60)/);
  for (const [mistake, line] of [
    ["cache: [", /"by":"SIGHUP","result":"invalid"/],
    ["log: { access: many }", /"by":"SIGHUP","result":"invalid".*log\.access/],
  ] as const) {
    writeFileSync(CONFIG_FILE, mistake);
    replica.process.child.kill("SIGHUP");
    await replica.process.says(line);
  }
  expect((await ask(`${replica.url}/areas?q=b`)).status).toBe(200);
  replica.process.child.kill("SIGTERM");
  expect(await replica.process.ended).toBe(0);
});
