/**
 * Fails when the code grows past its size: every line must be read by the next engineer, so a new one replaces an old one.
 * Lower the numbers when code goes. Raise one only together with a reason in the commit.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** The most lines of code, without blank lines and comments. The sandbox is a stand-in, and does not count. */
const MOST = { src: 15_800, test: 20_000 };

const isCode = /\.(?:ts|mjs|js|lua|css|html|py)$/;
const isComment = /^(?:\/\/|--|#)/;

function linesOf(file: string): number {
  const text = readFileSync(file, "utf8").replaceAll(/^\s*\/\*[\s\S]*?\*\//gm, "");
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "" && !isComment.test(line)).length;
}

for (const [folder, most] of Object.entries(MOST)) {
  const files = execFileSync("git", ["ls-files", folder], { encoding: "utf8" }).trim().split("\n");
  const counted = files.filter((file) => isCode.test(file) && !file.startsWith("src/sandbox/"));
  const lines = counted.reduce((sum, file) => sum + linesOf(file), 0);
  if (lines > most) {
    console.error(`${folder} has ${lines} lines of code; at most ${most} are allowed (tools/check-size.ts).`);
    process.exitCode = 1;
  }
}
