import type { Command } from "commander";

import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** `start`: runs the gateway. */
export function addStart(program: Command): void {
  const command = program
    .command("start")
    .alias("gateway")
    .description("run the gateway until SIGTERM or SIGINT")
    .action(async (options: SettingOptions) => {
      const { main } = await import("../main.ts");
      await main(environmentWith(options));
    });
  addSettingOptions(command, ["config", "host", "port", "adminHost", "adminPort", "logLevel"]);
}
