/** The examples of README and docs: commands run as they stand, with the ports of this test, and YAML is accepted. */
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";

import { examineConfig } from "../../src/config/load.ts";
import { CHART, minimalWith, render, type Values } from "../support/chart.ts";
import { command } from "../support/command.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { runProgram } from "../support/process.ts";
import { temporaryDirectory } from "../support/files.ts";
import { helmCommand, promtool } from "../support/tools.ts";

const PAGES = [
  "README.md",
  `${CHART}/README.md`,
  ...readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

interface Block {
  readonly page: string;
  readonly language: string;
  readonly text: string;
}

const BLOCKS: readonly Block[] = PAGES.flatMap((page) =>
  [...readFileSync(page, "utf8").matchAll(/^```(\w*)\n([^]*?)^```/gm)].map(
    ([, language = "", text = ""]): Block => ({ page, language, text }),
  ),
);

const isScrapeConfig = ({ text }: Block): boolean => text.includes("scrape_configs:");
const isForChart = ({ page }: Block): boolean => page === "docs/kubernetes.md";

/** @returns the commands of a block, each on one line, without comments */
function commandsIn({ text, language }: Block): string[] {
  if (language !== "" && language !== "sh") return [];
  return text
    .replaceAll("\\\n", " ")
    .split("\n")
    .map((line) => line.replace(/^\$ /, "").replace(/ {2,}#.*$/, ""));
}

/** @returns the blocks, and fails if there are none: then this test does not find them any more */
function blocks(isWanted: (block: Block) => boolean): readonly Block[] {
  const found = BLOCKS.filter(isWanted);
  expect(found).not.toEqual([]);
  return found;
}

it("curl commands are answered", async () => {
  const gateway = await startGateway();
  const control = await gateway.sandbox.listenControl();
  const addresses = new Map([
    ["8080", gateway.url],
    ["9090", gateway.adminUrl],
    ["4000", gateway.sandboxUrl],
    ["4001", control.url],
  ]);
  const outcomes: unknown[] = [];
  let count = 0;
  for (const block of BLOCKS)
    for (const line of commandsIn(block).filter((each) => each.startsWith("curl "))) {
      count++;
      const here = line.replace(
        /(?:http:\/\/)?(?:localhost|127\.0\.0\.1):(\d+)/g,
        (address, port: string) => addresses.get(port) ?? address,
      );
      const run = runProgram("sh", ["-c", `${here} -sS -o /dev/null -w '%{http_code}'`]);
      const status = (await run.ended, run.output());
      gateway.sandbox.faults.clear();
      if (!/^(200|304)$/.test(status)) outcomes.push([block.page, line, status]);
    }
  expect(outcomes).toEqual([]);
  expect(count).toBeGreaterThan(5);
});

it("commands of npm exist, those of the command line with their options", async () => {
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync("package.json", "utf8"));
  const texts = PAGES.map((page) => readFileSync(page, "utf8")).join("\n");
  const named = [...texts.matchAll(/\bnpm run (?:-s )?([\w:-]+)/g)].map(([, name = ""]) => name);
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  // Outside this project, npx would run whatever somebody has registered under the name.
  expect(texts).not.toContain("npx property-gateway");
  const lines = new Set(
    [...texts.matchAll(/\bnpm run (?:-s cli|(?=sandbox)) ?(?:-- )?([a-z][a-z -]*)/g)].map(([, line = ""]) =>
      line.trim(),
    ),
  );
  expect(lines.size).toBeGreaterThan(7);
  for (const line of lines) {
    const [name = "", ...options] = line.split(" ").filter((word) => /^(?:--)?[a-z]/.test(word));
    const { code, output } = await command([name, "--help"]);
    expect([line, code]).toEqual([line, 0]);
    for (const option of options.filter((word) => word.startsWith("--"))) expect(output).toContain(option);
  }
  const [, ...defaults] = /caller id `([^`]+)`, key `([^`]+)`, service/.exec(texts) ?? ["", "missing"];
  for (const value of defaults) expect((await command(["sandbox", "--help"])).output).toContain(`"${value}"`);
});

it("settings are valid", () => {
  const wrong = blocks(
    (block) => block.language === "yaml" && !isForChart(block) && !isScrapeConfig(block),
  ).map(({ page, text }) => {
    const readFile = (path: string): string => (path === "example.yaml" ? text : "0123456789abcdef");
    const { problems } = examineConfig({ env: { ...gatewayEnv(), CONFIG_FILE: "example.yaml" }, readFile });
    return { page, problems };
  });
  expect(wrong.filter(({ problems }) => problems.length > 0)).toEqual([]);
});

it("values of the chart and helm's arguments are accepted", async () => {
  for (const { text } of blocks((block) => block.language === "yaml" && isForChart(block)))
    for (const document of parseAllDocuments(text)) {
      const values: Values = document.toJS();
      expect(Object.keys(values)).not.toEqual([]);
      expect(render(minimalWith(values)).length).toBeGreaterThan(0);
    }
  const installs = BLOCKS.flatMap(commandsIn).filter((line) => line.startsWith("helm install "));
  expect(installs).not.toEqual([]);
  for (const install of new Set(installs)) {
    const script = install.replace(/^helm install/, `'${helmCommand(4)}' template`);
    const helm = runProgram("sh", ["-c", script]);
    expect([await helm.ended, helm.output()]).toEqual([0, expect.stringContaining("kind: Deployment")]);
  }
});

it("Prometheus' settings are accepted", () => {
  const directory = temporaryDirectory();
  copyFileSync("deploy/prometheus/rules.yaml", join(directory, "rules.yaml"));
  for (const { text } of blocks(isScrapeConfig)) {
    const path = join(directory, "prometheus.yml");
    writeFileSync(path, text);
    expect(promtool("check", "config", path)).toMatchObject({ status: 0 });
  }
});

it("the answers of the admin port have the members of the real ones", async () => {
  const gateway = await startGateway();
  await gateway.get("/areas?q=Nacka");
  const shown = blocks(({ language }) => language === "json").map(({ text }): unknown => JSON.parse(text));
  const real = [await gateway.shows("/usage?by=app"), await gateway.shows("/quote?url=/areas")];
  expect(shown.map(namesIn)).toEqual(real.map(namesIn));
});

/** @returns the names of all members, at every depth; of a list, those of its first item */
function namesIn(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(namesIn);
  if (typeof value !== "object" || value === null) return null;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, namesIn(member)]));
}

it("every other example is a picture, a line of a log or of HTTP, or needs Docker", () => {
  const others = BLOCKS.filter(
    (block) =>
      !["yaml", "json", "mermaid"].includes(block.language) &&
      !commandsIn(block).some((line) => /^(?:curl|npm|helm) /.test(line)),
  );
  // Add a test for a new example if it can run. The commands for systemd need root (test/delivery checks the unit).
  // docs/migration.md, docs/internals/cache-policy.md and docs/redis.md have tests of their own.
  const known =
    "budget.md configuration.md delivery.md delivery.md delivery.md http.md http.md internals/cache-policy.md " +
    "internals/logs.md migration.md pages.md redis.md";
  expect(others.map(({ page }) => page).toSorted()).toEqual(known.split(" ").map((name) => `docs/${name}`));
});
