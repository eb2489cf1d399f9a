/**
 * `npm run check-node`: compares the Node that npm has installed with the official one. A package on npm carries Node, and
 * nobody at nodejs.org signs that package. If nodejs.org cannot be reached, the program reports that, and does not fail.
 */
import { spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";

const TIMEOUT_MS = 120_000;

interface NodeBinary {
  /** Where the official releases are, `https://nodejs.org/dist`. */
  readonly releases: string;
  /** `v26.10.0` */
  readonly version: string;
  /** `linux-x64` */
  readonly system: string;
  readonly binary: Buffer;
}

type Outcome = "same" | "different" | "not-checked";

/** Reads the list of checksums, checks the archive against it, and compares the binary in the archive. */
export async function compareNode({ releases, version, system, binary }: NodeBinary): Promise<Outcome> {
  const name = `node-${version}-${system}.tar.gz`;
  const list = await download(`${releases}/${version}/SHASUMS256.txt`);
  const archive = list && (await download(`${releases}/${version}/${name}`));
  if (list === undefined || archive === undefined) return "not-checked";
  const line = list
    .toString()
    .split("\n")
    .find((text) => text.endsWith(`  ${name}`));
  if (line?.slice(0, 64) !== hash("sha256", archive)) return "different";
  const path = name.replace(".tar.gz", "/bin/node");
  const { stdout } = spawnSync("tar", ["-xzOf", "-", path], { input: archive, maxBuffer: 2 ** 30 });
  return hash("sha256", stdout) === hash("sha256", binary) ? "same" : "different";
}

async function download(url: string): Promise<Buffer | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? Buffer.from(await response.arrayBuffer()) : undefined;
  } catch {
    return undefined;
  }
}

if (import.meta.main) {
  const outcome = await compareNode({
    releases: "https://nodejs.org/dist",
    version: process.version,
    system: `${process.platform}-${process.arch}`,
    binary: readFileSync(process.execPath),
  });
  const said: Record<Outcome, string> = {
    same: `${process.version} is the one of nodejs.org`,
    different: `${process.execPath} is NOT the one of nodejs.org`,
    "not-checked": "not checked: nodejs.org has no such release, or cannot be reached",
  };
  console.log(`node      ${said[outcome]}`);
  if (outcome === "different") process.exitCode = 1;
}
