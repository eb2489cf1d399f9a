/** Files with secrets that change while the process runs. */
import { expect, it, onTestFinished } from "vitest";

import { openSettings } from "../../../src/config/load.ts";
import { createLiveSettings } from "../../../src/config/secrets/reread-secret-files.ts";
import { createAuthority } from "../../support/certificates.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { MINIMAL } from "./config-fixture.ts";

const AUTHORITY = createAuthority();
const [OLD, NEW] = [AUTHORITY.issue(), AUTHORITY.issue()];
const [FIRST, SECOND] = ["token-of-web-1234567", "token-of-web-7654321"];
const YAML = `
apps: [{ id: web, tokenFile: /web }]
server: { tls: { certFile: /cert, keyFile: /tls-key } }
redis: { url: redis://h, passwordFile: /password }
upstream: { privateKeyFile: /key }
`;

function follow() {
  const files = new Map<string, string>(
    Object.entries({
      "gateway.yaml": YAML,
      "/web": FIRST,
      "/cert": OLD.cert,
      "/tls-key": OLD.key,
      "/password": "first",
      "/key": "first-key",
    }),
  );
  const { UPSTREAM_PRIVATE_KEY: _, ...rest } = MINIMAL;
  const source = openSettings({
    env: { ...rest, CONFIG_FILE: "gateway.yaml" },
    readFile(path) {
      const content = files.get(path);
      if (content === undefined) throw Object.assign(new Error(`no ${path}`), { code: "ENOENT" });
      return content;
    },
  });
  const clock = createFakeClock();
  const said: string[] = [];
  const say = (message: string, fields: object): void =>
    void said.push(`${message} ${JSON.stringify(fields)}`);
  const followed = createLiveSettings({ ...source, clock, info: say, warn: say });
  onTestFinished(followed.close);
  const renewed: string[] = [];
  for (const name of ["redis", "server.tls"] as const) followed.onChange(name, () => void renewed.push(name));
  return { files, source, keys: source.keys, clock, said, followed, renewed };
}

const tokenOf = ({ current }: ReturnType<typeof follow>["followed"]): string | undefined =>
  current().apps[0]?.token?.reveal();

it("that are not valid change nothing, do not stop the others, and are logged once", async () => {
  const { files, keys, clock, said, followed, renewed } = follow();
  files.set("/key", "two\nlines").set("/tls-key", NEW.key).set("/password", "second");
  files.delete("/web");
  await clock.advance(10_000);
  expect(keys.current()).toBe("first-key");
  expect(tokenOf(followed)).toBe(FIRST);
  expect(followed.current().server.tls?.cert).toBe(OLD.cert.trimEnd());
  expect(renewed).toEqual(["redis"]);
  const [warning = "", ...others] = said;
  expect(others).toHaveLength(1);
  for (const part of ["upstream.privateKeyFile", "server.tls.keyFile", "apps.listed[0].tokenFile", "ENOENT"])
    expect(warning).toContain(part);
  expect(warning).not.toMatch(/lines|first/);
  files.set("/key", "second-key");
  await clock.advance(1_000);
  expect(keys.current()).toBe("second-key");
});

it("are those of the settings in force: an edited, not reloaded settings file changes nothing", async () => {
  const { files, source, clock, said, followed } = follow();
  files.set("/other", SECOND).set("gateway.yaml", YAML.replace("/web", "/other"));
  await clock.advance(10_000);
  expect(tokenOf(followed)).toBe(FIRST);
  // The reload brings it into force.
  const { usable } = source.reread();
  if (usable) followed.use(usable);
  expect(tokenOf(followed)).toBe(SECOND);
  // A mistake in the settings file does not stop the rotation.
  files
    .set("gateway.yaml", "budget: {")
    .set("/cert", NEW.cert)
    .set("/tls-key", NEW.key)
    .set("/key", "second-key");
  await clock.advance(1_000);
  expect(followed.current().server.tls?.cert).toBe(NEW.cert.trimEnd());
  expect(followed.current().upstream.privateKey.reveal()).toBe("second-key");
  expect(said.join("\n")).not.toMatch(/cannot be used/);
});

it("are not read after closing", () => {
  const { clock, followed } = follow();
  followed.close();
  expect(clock.pending).toBe(0);
});
