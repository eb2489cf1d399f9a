/** A copy of the SQLite file of a running gateway, and what a gateway makes of it. */
import { once } from "node:events";
import { copyFileSync, existsSync, readFileSync, statSync, watch, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";

import { expect, it } from "vitest";

import { createClient } from "../../src/cli/client.ts";
import { openDatabase } from "../../src/sqlite/database.ts";
import { command } from "../support/command.ts";
import { fileWith, temporaryDirectory } from "../support/files.ts";
import { startGateway } from "../support/gateway.ts";
import { serve } from "../support/serve.ts";
import { SQLITE_FILE } from "../support/sqlite.ts";

it("backup writes a copy with all answers and calls so far, and never over another file", async () => {
  const env = { DATA_DIR: temporaryDirectory(), BUDGET: "50/1h" };
  const gateway = await startGateway({ env });
  const file = join(temporaryDirectory(), "copy");
  const backup = () => command(["backup", file, "--admin-url", gateway.adminUrl]);
  for (let n = 0; n < 10; n++) expect((await gateway.get(`/areas?q=${n}`)).status).toBe(200);
  // The gateway works on while the copy is made.
  const [{ code, output }] = await Promise.all([backup(), gateway.get("/areas?q=meanwhile")]);
  expect([code, output]).toEqual([0, expect.stringContaining(file)]);
  expect((statSync(file).mode & 0o777).toString(8)).toBe("600");
  const before = readFileSync(file);
  expect(await backup()).toEqual({ code: 1, output: expect.stringMatching(/EEXIST/) });
  expect(readFileSync(file).equals(before)).toBe(true);
  const upstreamPort = Number(new URL(gateway.sandboxUrl).port);
  await gateway.stop();

  const restored = temporaryDirectory();
  copyFileSync(file, join(restored, SQLITE_FILE));
  const second = await startGateway({ env: { ...env, DATA_DIR: restored }, upstreamPort });
  expect((await second.budget()).windows[0]?.spent).toBeGreaterThanOrEqual(10);
  for (let n = 0; n < 10; n++) await second.get(`/areas?q=${n}`);
  expect(second.sandbox.requests()).toEqual([]);
});

it("an answer that breaks off is reported; if it is a backup, an older file stays as it is", async () => {
  const port = await serve(
    createServer((request, response) => response.write("x", () => void request.socket.destroy())),
  );
  const file = fileWith("older");
  // The answer may break off before or after the file is found to exist.
  const client = createClient({ adminUrl: `http://127.0.0.1:${port}` });
  for (let each = 0; each < 20; each++)
    await expect(client.save("/backup", file)).rejects.toThrow(/cannot be|broke off/);
  await expect(client.save("/backup", `${file}.new`)).rejects.toMatchObject({ exitCode: 3 });
  await expect(client.get("/budget")).rejects.toThrow("broke off");
  expect(readFileSync(file, "utf8")).toBe("older");
});

it("backup says that there is nothing to copy without a SQLite file", async () => {
  const gateway = await startGateway({ env: { DATA_DIR: "" } });
  const { code, output } = await command(["backup", "/nowhere/copy", "--admin-url", gateway.adminUrl]);
  expect([code, output]).toEqual([1, expect.stringContaining("no SQLite file")]);
});

it("a copy that is not finished is removed when the process stops, or at the next start after a kill", async () => {
  const directory = temporaryDirectory();
  const database = openDatabase(directory, () => undefined);
  // To copy so much takes a moment.
  database.exec("INSERT INTO entries VALUES ('large', 1, 9000000000000000, 1, zeroblob(60000000))");
  database.close();
  const files = ["", "-journal"].map((suffix) => `${directory}/unfinished-backup.sqlite${suffix}`);
  for (const file of files) writeFileSync(file, "");
  const settings = "server: { writeTimeout: 300ms }";
  const gateway = await startGateway({ env: { DATA_DIR: directory }, settings });
  expect(files.filter(existsSync)).toEqual([]);
  // A client that reads nothing does not keep the next one waiting.
  connect(gateway.adminPort, "127.0.0.1").unref().write("POST /backup HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const { status, headers, body } = await gateway.admin("/backup", "");
  expect([status, headers["content-length"]]).toEqual([200, String(body.length)]);
  const begun = once(watch(directory).unref(), "change", { signal: AbortSignal.timeout(20_000) });
  const broken = expect(gateway.admin("/backup", "")).rejects.toThrow();
  await begun;
  await gateway.stop();
  expect(files.filter(existsSync)).toEqual([]);
  await broken;
});
