import { expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";

it("settings are read when the file has changed, with watchSettings; mistakes in it change nothing", async () => {
  const env = { BUDGET: "", WATCH_SETTINGS: "true" };
  let settings = "budget: { limit: 1000000/1m }";
  const gateway = await startGateway({ settings: () => settings, env });
  settings = "budget: { limit: 10/1m }";
  expect(await gateway.logged("are in force")).toMatchObject({ by: "file" });
  expect((await gateway.get("/areas?q=b")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
  settings = "budget: { limit: many }";
  expect(await gateway.logged("Reload failed")).toMatchObject({ by: "file", result: "invalid" });
  expect((await gateway.get("/areas?q=c")).headers["ratelimit-policy"]).toBe('"1m";q=10;w=60');
  expect(await gateway.metric("gateway_config_last_reload_successful")).toBe(0);
});
