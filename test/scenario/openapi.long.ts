/** Answers to generated requests, held against the OpenAPI documents by schemathesis. */
import { describe, expect, it } from "vitest";

import { startGateway, type TestGateway } from "../support/gateway.ts";
import { runProgram } from "../support/process.ts";
import { temporaryDirectory } from "../support/files.ts";
import { schemathesis } from "../support/tools.ts";

/** Whether an answer is documented: its status, type, headers and body. */
const CHECKS =
  "status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance," +
  "unsupported_method,allow_header_conformance";
const LONGEST_MS = 600_000;

/** A gateway with a large budget: refusals would hide other answers. */
function start(): Promise<TestGateway> {
  return startGateway({ env: { BUDGET: "1000000/1m" } });
}

/** @returns the exit code and the report of a run that generates requests for every operation of a document */
async function tried(document: string, ...options: string[]): Promise<[unknown, string]> {
  const phases = ["--phases", "examples,coverage,fuzzing", "--max-examples", "50", "--seed", "1"];
  const output = ["--generation-database", "none", "--no-color", "--continue-on-failure"];
  const args = ["run", document, "--checks", CHECKS, ...phases, ...output, ...options];
  const [program, ...rest] = schemathesis(temporaryDirectory(), ...args);
  const run = runProgram(program, rest);
  return [await run.ended, run.output()];
}

const WITHOUT_FINDINGS = [0, expect.stringMatching(/(\d{3,}) generated, \1 passed/)];

describe("schemathesis finds no answer that is not documented", () => {
  it(
    "on the callers' port",
    async () => {
      const { url } = await start();
      expect(await tried(`${url}/openapi.json`)).toEqual(WITHOUT_FINDINGS);
    },
    LONGEST_MS,
  );
});
