import { spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { expect, it } from "vitest";

import { compareNode } from "../../tools/check-node.ts";
import { temporaryDirectory } from "../support/files.ts";
import { serve } from "../support/serve.ts";

const [VERSION, SYSTEM] = ["v1.2.3", "linux-x64"];
const NAME = `node-${VERSION}-${SYSTEM}`;
const BINARY = Buffer.from("the official binary");

/** A server like nodejs.org/dist. */
async function startReleases(checksumOf = (archive: Buffer) => hash("sha256", archive)): Promise<string> {
  const directory = temporaryDirectory();
  mkdirSync(join(directory, NAME, "bin"), { recursive: true });
  writeFileSync(join(directory, NAME, "bin/node"), BINARY);
  spawnSync("tar", ["-czf", `${NAME}.tar.gz`, NAME], { cwd: directory });
  const archive = readFileSync(join(directory, `${NAME}.tar.gz`));
  const list = `${"0".repeat(64)}  other.tar.gz\n${checksumOf(archive)}  ${NAME}.tar.gz\n`;
  const files: Record<string, string | Buffer> = {
    [`/${VERSION}/SHASUMS256.txt`]: list,
    [`/${VERSION}/${NAME}.tar.gz`]: archive,
  };
  const server = createServer(({ url = "" }, response) => {
    const file = files[url];
    response.writeHead(file === undefined ? 404 : 200).end(file);
  });
  return `http://127.0.0.1:${await serve(server)}`;
}

it("tells an official Node from another one, a wrong archive, and a place that cannot be reached", async () => {
  const good = { releases: await startReleases(), version: VERSION, system: SYSTEM, binary: BINARY };
  expect(await compareNode(good)).toBe("same");
  expect(await compareNode({ ...good, binary: Buffer.from("another one") })).toBe("different");
  expect(await compareNode({ ...good, releases: await startReleases(() => "f".repeat(64)) })).toBe(
    "different",
  );
  expect(await compareNode({ ...good, version: "v9.9.9" })).toBe("not-checked");
  expect(await compareNode({ ...good, releases: "http://127.0.0.1:9" })).toBe("not-checked");
});
