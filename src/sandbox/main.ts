/**
 * The sandbox as a process: arguments, addresses, signals.
 */
import { parseArgs } from "node:util";

import { onStopSignal } from "../process/events.ts";
import { createSandbox } from "./sandbox.ts";
import type { Sandbox, SandboxOptions } from "./types.ts";

const HELP = `A stand-in for the property API, over made-up data.

Usage: npm run sandbox -- [options]

  --port n            interface and thumbnails (default 4000; 0: any free port)
  --control-port n    faults, barrier, arrivals (default 4001)
  --host address      where both listen (default 127.0.0.1)
  --service name      the service's neutral name (default propertyservice)
  --caller-id name    the caller that is let in (default demo)
  --private-key key   the caller's key (default demo-key)
  --seed n            the same seed gives the same data (default 1)
  --listings n        how many listings (default 12000)
  --sold n            how many sold records (default 24000)
  --help              this text
`;

const MAX_RECORDS = 1_000_000;

/** An argument that cannot be understood; the message is one line for the user. */
class BadArgument extends Error {}

interface Arguments {
  readonly port: number;
  readonly controlPort: number;
  readonly host: string;
  readonly options: SandboxOptions;
}

function count(name: string, text: string, max: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > max) {
    throw new BadArgument(`--${name} must be an integer from 0 to ${max}, not ${JSON.stringify(text)}`);
  }
  return value;
}

/** @returns the arguments, or `undefined` where help is asked for */
function readArguments(args: string[]): Arguments | undefined {
  const text = (value: string): { type: "string"; default: string } => ({ type: "string", default: value });
  const { values } = parseArgs({
    args,
    options: {
      port: text("4000"),
      "control-port": text("4001"),
      host: text("127.0.0.1"),
      service: text("propertyservice"),
      "caller-id": text("demo"),
      "private-key": text("demo-key"),
      seed: text("1"),
      listings: text("12000"),
      sold: text("24000"),
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  if (!/^[a-z0-9][a-z0-9-]*$/i.test(values.service)) {
    throw new BadArgument("--service must be letters, digits and hyphens");
  }
  if (values["caller-id"] === "") throw new BadArgument("--caller-id must not be empty");
  return {
    port: count("port", values.port, 65_535),
    controlPort: count("control-port", values["control-port"], 65_535),
    host: values.host,
    options: {
      service: values.service,
      callerId: values["caller-id"],
      privateKey: values["private-key"],
      seed: count("seed", values.seed, 0xffff_ffff),
      sizes: {
        listings: count("listings", values.listings, MAX_RECORDS),
        sold: count("sold", values.sold, MAX_RECORDS),
      },
    },
  };
}

async function run(sandbox: Sandbox, { port, controlPort, host, options }: Arguments): Promise<void> {
  const stop = new Promise<void>((resolve) => onStopSignal(() => resolve()));
  try {
    const api = await sandbox.listen(port, host);
    const control = await sandbox.listenControl(controlPort, host);
    const { sizes } = sandbox.state();
    process.stdout.write(
      `sandbox: ${sizes.listings} listings, ${sizes.sold} sold, ${sizes.areas} areas; callerId ${options.callerId}\n` +
        `interface  ${api.url}\n` +
        `thumbnails ${api.url}/cache/\n` +
        `control    ${control.url}\n`,
    );
    await stop;
  } finally {
    await sandbox.close();
  }
}

/** Says in one line on stderr what is wrong. */
function complain(error: unknown): void {
  process.stderr.write(`sandbox: ${error instanceof Error ? error.message : String(error)}\n`);
}

/**
 * Runs the sandbox until SIGINT or SIGTERM. Exit code 2: arguments that cannot be understood;
 * 1: a port that cannot be had.
 */
export async function main(): Promise<void> {
  let given: Arguments | undefined;
  try {
    given = readArguments(process.argv.slice(3));
  } catch (error) {
    complain(error);
    process.stderr.write("Try --help.\n");
    process.exitCode = 2;
    return;
  }
  if (!given) {
    process.stdout.write(HELP);
    return;
  }
  try {
    await run(createSandbox(given.options), given);
  } catch (error) {
    complain(error);
    process.exitCode = 1;
  }
}
