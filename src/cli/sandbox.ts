import type { Command } from "commander";

import type * as Sandbox from "../sandbox/sandbox.ts";
import { describePortInUse } from "../process/listen.ts";
import { onStopSignal } from "../process/signals.ts";
import { CommandFailure, EXIT } from "./exit.ts";
import { PORT, wholeNumber } from "./settings-options.ts";

const MAX_RECORDS = 1_000_000;

type SandboxArguments = Pick<Sandbox.SandboxOptions, "service" | "callerId" | "privateKey" | "seed"> &
  Record<"port" | "controlPort" | "listings" | "sold", number> & { readonly host: string };

/** `sandbox`: runs a stand-in for the property API until SIGINT or SIGTERM. */
export function addSandbox(program: Command): void {
  program
    .command("sandbox")
    .description("run a stand-in for the property API with generated data")
    .option("-p, --port <number>", "port of the API and the thumbnails; 0: any free port", PORT, 4000)
    .option("--control-port <number>", "port of the control interface: faults, arrivals", PORT, 4001)
    .option("--host <address>", "address on which both ports listen", "127.0.0.1")
    .option("--service <name>", "the service's neutral name", "propertyservice")
    .option("--caller-id <name>", "the only caller id that the sandbox accepts", "demo")
    .option("--private-key <key>", "the caller's key", "demo-key")
    .option("--seed <number>", "the same seed gives the same data", wholeNumber(0xffff_ffff), 1)
    .option("--listings <number>", "number of listings", wholeNumber(MAX_RECORDS), 12_000)
    .option("--sold <number>", "number of sold records", wholeNumber(MAX_RECORDS), 24_000)
    .action(runSandbox);
}

async function runSandbox(given: SandboxArguments): Promise<void> {
  const { createSandbox } = await loadSandbox();
  const { port, controlPort, host, callerId, listings, sold } = given;
  if (port === controlPort && port !== 0)
    throw new CommandFailure("--port and --control-port must differ.", EXIT.usage);
  const sandbox = createSandbox({ ...given, sizes: { listings, sold } });
  const stop = new Promise<void>((resolve) => onStopSignal(() => resolve()));
  try {
    const api = await sandbox.listen(port, host);
    const control = await sandbox.listenControl(controlPort, host);
    process.stdout.write(
      `sandbox: ${listings} listings, ${sold} sold, ${sandbox.data.areas.length} areas; callerId ${callerId}\n` +
        `interface  ${api.url}\nthumbnails ${api.url}/cache/\ncontrol    ${control.url}\n`,
    );
    await stop;
  } catch (error) {
    const ports = { [port]: "--port", [controlPort]: "--control-port" };
    const why = describePortInUse(error, ports) ?? (error instanceof Error ? error.message : String(error));
    throw new CommandFailure(`sandbox: ${why}`);
  } finally {
    await sandbox.close();
  }
}

/** The sandbox is a part of the project, but not of the image. @throws {CommandFailure} in the image */
export async function loadSandbox(): Promise<typeof Sandbox> {
  try {
    return await import("../sandbox/sandbox.ts");
  } catch (error) {
    const code: unknown = error instanceof Error && Reflect.get(error, "code");
    if (code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new CommandFailure(
      "The image has no sandbox. Run it from the project's folder: npm run sandbox, npm run demo, or docker compose up.",
    );
  }
}
