/** A gateway's process whose two ports are attacked, and callers who are served meanwhile. */
import { expect, onTestFinished } from "vitest";

import { createSandbox, type Sandbox } from "../../src/sandbox/sandbox.ts";
import { ask } from "./ask.ts";
import { CALLER, gatewayEnv } from "./gateway.ts";
import { attackPort } from "./port-attack.ts";
import { argumentsOf, runProgram, runScript, type Running } from "./process.ts";

interface GatewayProcess extends Running {
  readonly callers: string;
  readonly admin: string;
  readonly sandbox: Sandbox;
}

interface ProcessOptions {
  /** The most files and connections that the process may open. */
  readonly openFiles?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a gateway as `npm start` does, in front of a small sandbox. Both end with the test. */
export async function startProcess({ openFiles, env = {} }: ProcessOptions = {}): Promise<GatewayProcess> {
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 1_000, sold: 1_000 } });
  onTestFinished(sandbox.close);
  const all = { ...gatewayEnv((await sandbox.listen()).url), ...env };
  const gateway = openFiles === undefined ? runScript("start", all) : runWithFiles(openFiles, all);
  const [, callers = "", admin = ""] = await gateway.says(/"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/);
  return { ...gateway, callers, admin, sandbox };
}

function runWithFiles(openFiles: number, env: Readonly<Record<string, string>>): Running {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const script = `ulimit -n ${openFiles}; exec "$@"`;
  return runProgram("sh", [
    "-c",
    script,
    "sh",
    "env",
    ...variables,
    process.execPath,
    ...argumentsOf("start"),
  ]);
}

/** Attacks both ports. Only refusals come back, every other caller is answered, and the process goes on. */
export async function expectToWithstand(forMs: number): Promise<void> {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
  const { callers, admin, output } = await startProcess();
  let isOver = false;
  const attacks = [callers, admin].map((url) => attackPort({ port: Number(new URL(url).port), seed, forMs }));
  const answers = await Promise.all([
    Promise.all(attacks).finally(() => (isOver = true)),
    serve(callers, admin, () => isOver),
  ]).catch((error: unknown) => {
    throw new Error(`seed ${seed}: ${output()}`, { cause: error });
  });
  for (const status of answers[0].flatMap((some) => [...some]))
    expect([seed, status]).toEqual([seed, expect.stringMatching(/^(HTTP\/1\.1 4\d\d |$)/)]);
}

async function serve(callers: string, admin: string, isOver: () => boolean): Promise<void> {
  do {
    expect((await ask(`${callers}/areas?q=Nacka`)).status).toBe(200);
    expect((await ask(`${admin}/livez`)).status).toBe(200);
  } while (!isOver());
}
