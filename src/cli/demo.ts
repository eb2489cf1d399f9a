import type { Command } from "commander";

import { addSettingOptions, environmentWith, type SettingOptions } from "./settings-options.ts";

/** `demo`: a sandbox, a gateway in front of it, and a little traffic. */
export function addDemo(program: Command): void {
  const command = program
    .command("demo")
    .description("run a sandbox and a gateway in front of it, with a little traffic; nothing to set up")
    .action(async (options: SettingOptions) => {
      const { runDemo } = await import("./demo-run.ts");
      await runDemo(environmentWith(options));
    });
  addSettingOptions(command, ["config", "host", "port", "adminHost", "adminPort", "logLevel"]);
}
