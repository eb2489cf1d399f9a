import { type Command, InvalidArgumentError } from "commander";

import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { onStopSignal } from "../process/events.ts";
import { describePortInUse } from "../process/listen.ts";
import { CommandFailure } from "./exit.ts";
import { loadSandbox } from "./load-sandbox.ts";

const MAX_RECORDS = 1_000_000;

type SandboxArguments = Pick<SandboxOptions, "service" | "callerId" | "privateKey" | "seed"> &
  Record<"port" | "controlPort" | "listings" | "sold", number> & { readonly host: string };

/** `sandbox`: runs a stand-in for the property API until SIGINT or SIGTERM. */
export function addSandbox(program: Command): void {
  program
    .command("sandbox")
    .description("run a stand-in for the property API with generated data")
    .option("-p, --port <number>", "port of the API and the thumbnails; 0: any free port", upTo(65_535), 4000)
    .option("--control-port <number>", "port of the control interface: faults, arrivals", upTo(65_535), 4001)
    .option("--host <address>", "address on which both ports listen", "127.0.0.1")
    .option("--service <name>", "the service's neutral name", "propertyservice")
    .option("--caller-id <name>", "the only caller id that the sandbox accepts", "demo")
    .option("--private-key <key>", "the caller's key", "demo-key")
    .option("--seed <number>", "the same seed gives the same data", upTo(0xffff_ffff), 1)
    .option("--listings <number>", "number of listings", upTo(MAX_RECORDS), 12_000)
    .option("--sold <number>", "number of sold records", upTo(MAX_RECORDS), 24_000)
    .action(runSandbox);
}

async function runSandbox(given: SandboxArguments): Promise<void> {
  const { createSandbox } = await loadSandbox();
  const { port, controlPort, host, callerId, listings, sold } = given;
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

function upTo(max: number): (text: string) => number {
  return (text) => {
    if (/^\d{1,10}$/.test(text) && Number(text) <= max) return Number(text);
    throw new InvalidArgumentError(`Expected an integer from 0 to ${max}.`);
  };
}
