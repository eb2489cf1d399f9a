import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { ignoredBy, parseDockerfile } from "../support/image.ts";
import { argumentsOf } from "../support/process.ts";
import { fileWith } from "../support/files.ts";
import { hadolint } from "../support/tools.ts";

// The linter is loaded once, over the network.
const OBTAINING_MS = 300_000;

const { optionalDependencies }: { optionalDependencies: Record<string, string> } = JSON.parse(
  readFileSync("package.json", "utf8"),
);

describe("the Dockerfile", () => {
  it("has nothing that hadolint would mention", { timeout: OBTAINING_MS }, () => {
    // Beside a file that is bad, which shows that mistakes are found.
    const bad = fileWith("FROM debian:latest\nRUN cd /tmp && apt-get install curl\n", "Dockerfile");
    const { output } = hadolint("--failure-threshold", "style", "--format", "json", "Dockerfile", bad);
    const found: { file: string; code: string }[] = JSON.parse(output);
    expect(found.filter(({ file }) => file !== bad)).toEqual([]);
    expect(found.map(({ code }) => code)).toEqual(expect.arrayContaining(["DL3007", "DL3008"]));
  });

  it("has the Node that the project pins in every stage, and can pin its build, too", () => {
    const { stages, arguments: globals } = parseDockerfile(readFileSync("Dockerfile", "utf8"));
    const version: unknown = expect.stringMatching(/^\d+\.\d+\.\d+$/);
    expect(globals).toEqual({ NODE_VERSION: version, NODE_DIGEST: "" });
    const pinned = Object.entries(optionalDependencies).filter(([name]) => name.startsWith("node-"));
    expect(new Set(pinned.map(([, version]) => version))).toEqual(new Set([globals["NODE_VERSION"]]));
    const bases = new Set(stages.map(({ base }) => base));
    expect([...bases]).toEqual([`node:${globals["NODE_VERSION"]}-trixie-slim`]);
    const froms = readFileSync("Dockerfile", "utf8").match(/^FROM .*$/gm) ?? [];
    for (const from of froms) expect(from).toContain("-trixie-slim${NODE_DIGEST}");
  });

  it.each([
    ".env",
    "data/property-gateway.sqlite",
    ".git/config",
    "node_modules/express/index.js",
    "src/sandbox/sandbox.ts",
  ])("never gets %s", (path) => {
    expect(ignoredBy(readFileSync(".dockerignore", "utf8"))(path)).toBe(true);
  });
});

describe("every command that starts Node", () => {
  it("starts the gateway with the same options of Node in the image as in npm start", () => {
    const [, entry = "[]"] = /^ENTRYPOINT (.*)$/m.exec(readFileSync("Dockerfile", "utf8")) ?? [];
    expect([...JSON.parse(entry), "start"]).toEqual(["node", ...argumentsOf("start")]);
  });

  it.each([
    "package.json",
    "Dockerfile",
    "compose.yaml",
    "helm/property-gateway/templates/tests/answers.yaml",
  ])("keeps its inspector closed to signals from the first moment on, in %s", (path) => {
    const commands = readFileSync(path, "utf8")
      .split("\n")
      .filter((line) => /\bnode\b.*(?:start\.mjs|--eval)/.test(line) && !line.startsWith("#"));
    expect(commands.length).toBeGreaterThan(0);
    for (const command of commands) expect(command).toMatch(/\bnode"?,? "?--disable-sigusr1\b/);
  });
});
