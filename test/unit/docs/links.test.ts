import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { describe, expect, it } from "vitest";

const DOCS = readdirSync("docs", { encoding: "utf8", recursive: true })
  .filter((name) => name.endsWith(".md"))
  .map((name) => `docs/${name}`);
const PAGES = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", ...DOCS];

/** The anchor that GitHub gives a heading. */
function anchorOf(heading: string): string {
  const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
  return text.replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");
}

function anchorsIn(page: string): string[] {
  const text = readFileSync(page, "utf8");
  const headings = [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = ""]) => anchorOf(heading));
  return [...headings, ...[...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = ""]) => id)];
}

/** Links to files of the project; code blocks have none. */
function linksIn(page: string): { target: string; anchor: string | undefined }[] {
  const text = readFileSync(page, "utf8").replaceAll(/^```.*?^```/gms, "");
  return [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)].map(([, path = "", anchor]) => ({
    target: path === "" ? page : join(dirname(page), path),
    anchor,
  }));
}

describe.each(PAGES)("%s", (page) => {
  it("links to files and headings that exist", () => {
    const broken = linksIn(page).filter(
      ({ target, anchor }) =>
        !existsSync(target) || (anchor !== undefined && !anchorsIn(target).includes(anchor)),
    );
    expect(broken).toEqual([]);
  });
});

it("the log lines that docs/runbook.md quotes are in the source", () => {
  const files = readdirSync("src", { encoding: "utf8", recursive: true });
  const code = files.filter((name) => /\.(?:ts|lua)$/.test(name));
  const source = code.map((name) => readFileSync(`src/${name}`, "utf8")).join("\n");
  const quoted = [...readFileSync("docs/runbook.md", "utf8").matchAll(/\*\*"(.+?)"\*\*/g)];
  expect(quoted.length).toBeGreaterThan(6);
  expect(quoted.map(([, line = ""]) => line).filter((line) => !source.includes(line))).toEqual([]);
});

it("docs/README.md lists every page", () => {
  const listed = new Set(linksIn("docs/README.md").map(({ target }) => target));
  expect(DOCS.filter((page) => page !== "docs/README.md" && !listed.has(page))).toEqual([]);
});
