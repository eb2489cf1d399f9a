import type { Command } from "commander";

import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** `demo`: runs a sandbox, a gateway in front of it, and some sample traffic. */
export function addDemo(program: Command): void {
  const command = program
    .command("demo")
    .description("run a sandbox, a gateway in front of it and some sample traffic; no setup needed")
    .action(async (options: SettingOptions) => {
      const { runDemo } = await import("./demo-run.ts");
      await runDemo(environmentWith(options));
    });
  addSettingOptions(command, ["config", "host", "port", "adminHost", "adminPort", "logLevel"]);
}
