/** Wrong settings at the start. unit/config/settings.txt has every message. */
import { expect, it } from "vitest";

import { command } from "../support/command.ts";
import { fileWith } from "../support/files.ts";
import { gatewayEnv } from "../support/gateway.ts";

it.each(["gateway", "config-check"])("%s refuses wrong settings with one line for each", async (name) => {
  const file = fileWith("cache:\n  ttl: { listings: 5 minutes }\nsever: { port: 80 }\n", "mine.yaml");
  const { code, output } = await command([name], { ...gatewayEnv(), CONFIG_FILE: file, BUDGET: "many" });
  const lines = output.split("\n").filter((line) => !/^$|^the configuration is not valid:$/.test(line));
  expect([code, lines]).toEqual([
    1,
    [
      expect.stringContaining(`${file}:3: sever: unknown setting; did you mean server?`),
      expect.stringContaining(`${file}:2: cache.ttl.listings: found "5 minutes"; expected `),
      expect.stringMatching(/^ *environment variable BUDGET: budget\.limit: .*60\/1m/),
    ],
  ]);
});
