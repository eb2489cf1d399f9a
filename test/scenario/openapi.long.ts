/** The OpenAPI document in the hands of other people's tools: linters, a generator of clients, and schemathesis. */
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { LISTING_ID, startGateway, type TestGateway } from "../support/gateway.ts";
import { runProgram } from "../support/process.ts";
import { type Anything, temporaryDirectory } from "../support/files.ts";
import { openapiTools, schemathesis } from "../support/tools.ts";

/** Whether an answer is documented: its status, type, headers and body. */
const CHECKS =
  "status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance," +
  "unsupported_method,allow_header_conformance";
const LONGEST_MS = 600_000;

/** A gateway with a large budget: refusals would hide other answers. */
const start = (): Promise<TestGateway> => startGateway({ env: { BUDGET: "1000000/1m" } });

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

it(
  "schemathesis finds no answer that is not documented on the callers' port",
  async () => {
    const { url } = await start();
    expect(await tried(`${url}/openapi.json`)).toEqual(WITHOUT_FINDINGS);
  },
  LONGEST_MS,
);

/** A directory with the document of a gateway, and the tools. `run` gives the exit code and the output of one of them. */
async function workshop(gateway: TestGateway) {
  const directory = temporaryDirectory();
  symlinkSync(openapiTools(), join(directory, "node_modules"));
  const { text } = await gateway.get("/openapi.json");
  writeFileSync(join(directory, "openapi.json"), text);
  const paths: Anything = JSON.parse(text).paths;
  const write = (name: string, content: string): void => writeFileSync(join(directory, name), content);
  async function run(...args: string[]): Promise<[unknown, string]> {
    const path = `PATH=${join(directory, "node_modules/.bin")}:${process.env["PATH"]}`;
    const [program, ...rest] = ["env", `--chdir=${directory}`, "REDOCLY_TELEMETRY=off", path, ...args];
    const running = runProgram(program ?? "", rest);
    return [await running.ended, running.output()];
  }
  return { paths, write, run };
}

it(
  "Redocly's and Spectral's recommended rules have nothing to say",
  async () => {
    const { write, run } = await workshop(await startGateway());
    write(".spectral.yaml", "extends: ['spectral:oas']\n");
    write("redocly.yaml", "extends: [recommended]\n");
    const linted = await run("redocly", "lint", "openapi.json", "--max-problems=20", "--format=json");
    expect(linted).toEqual([0, expect.stringContaining('"errors": 0,\n    "warnings": 0')]);
    const spectral = await run("spectral", "lint", "--fail-severity=hint", "openapi.json");
    expect(spectral).toEqual([0, expect.stringContaining("No results")]);
  },
  LONGEST_MS,
);

it(
  "a client of openapi-typescript sends all parameters without options, and knows the answers' types",
  async () => {
    const gateway = await startGateway();
    const { paths, write, run } = await workshop(gateway);
    const searches = (["listings", "sold", "areas"] as const).map((resource) => {
      const all: Anything[] = paths[`/${resource}`].parameters;
      const named = all.filter(({ name }) => name !== undefined);
      expect(named.length).toBeGreaterThan(5);
      const query = JSON.stringify(Object.fromEntries(named.map(({ name, example }) => [name, example])));
      return `{
        const { data, error } = await client.GET("/${resource}", { params: { query: ${query} } });
        if (error) throw new Error(JSON.stringify(error));
        const [total, count, ids]: [number, number, number[]] =
          [data.totalCount, data.count, data.${resource}.map((record) => record.serviceId)];
        console.log("${resource}", total >= count && count === ids.length);
      }`;
    });
    write(
      "client.mts",
      `import createClient from "openapi-fetch";
      import type { paths } from "./schema.d.ts";
      const client = createClient<paths>({ baseUrl: "${gateway.url}" });
      ${searches.join("\n")}
      const { data } = await client.GET("/listings/{serviceId}", { params: { path: { serviceId: ${LISTING_ID} } } });
      console.log(data?.listings[0]?.serviceId);
      const { error } = await client.GET("/listings", { params: { query: { limit: 900 } } });
      console.log(error?.errors?.map((mistake) => mistake.parameter));`,
    );
    const generated = await run("openapi-typescript", "openapi.json", "-o", "schema.d.ts");
    expect(generated).toEqual([0, expect.any(String)]);
    const flags = ["--noEmit", "--strict", "--module", "nodenext", "--allowImportingTsExtensions"];
    expect(await run("tsc", ...flags, "client.mts")).toEqual([0, ""]);
    expect(await run(process.execPath, "client.mts")).toEqual([
      0,
      `listings true\nsold true\nareas true\n${LISTING_ID}\n[ 'limit' ]\n`,
    ]);
  },
  LONGEST_MS,
);
