/** The gateway in a company's network: TLS on its own ports, a proxy on the way to the API, and tokens of apps. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import tls from "node:tls";
import { promisify } from "node:util";

import { describe, expect, it } from "vitest";

import { ask, problemCode } from "../support/ask.ts";
import { type Certificate, createAuthority } from "../support/certificates.ts";
import { command } from "../support/command.ts";
import { fileWith } from "../support/files.ts";
import { gatewayEnv, startGateway } from "../support/gateway.ts";
import { serve } from "../support/serve.ts";
import { createLeapingClock } from "../support/stepping-clock.ts";
import { startTlsFront } from "../support/tls-front.ts";
import { NO_AREAS, startUpstream } from "../support/upstream.ts";

const AUTHORITY = createAuthority();
const UPSTREAM_HOST = "api.example";

/** The files of a certificate of our authority. `write` puts another one into them. */
function certificateFiles() {
  const [certFile, keyFile] = [fileWith(""), fileWith("")];
  const write = ({ cert, key }: Certificate): void => {
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key);
  };
  write(AUTHORITY.issue());
  return { certFile, keyFile, write };
}

/** Asks over TLS. @returns the status, and the serial number and the end of the port's certificate */
async function reach(url: string) {
  const { promise, resolve, reject } = Promise.withResolvers<Record<"status" | "serial" | "end", unknown>>();
  const request = https.get(url, { ca: AUTHORITY.cert, agent: false }, ({ socket, statusCode: status }) => {
    if (!(socket instanceof tls.TLSSocket)) throw new Error("no TLS");
    const { serialNumber: serial, valid_to: end } = socket.getPeerCertificate();
    resolve({ status, serial, end: new Date(end).toUTCString() });
    socket.destroy();
  });
  request.on("error", reject);
  return await promise;
}

describe("TLS on the gateway's own ports", () => {
  it("serves callers and operators, and uses a new certificate without a restart", async () => {
    const { certFile, keyFile, write } = certificateFiles();
    const gateway = await startGateway({
      env: {
        TLS_CERT_FILE: certFile,
        TLS_KEY_FILE: keyFile,
        ADMIN_TLS_CERT_FILE: certFile,
        ADMIN_TLS_KEY_FILE: keyFile,
      },
    });
    expect((await reach(`${gateway.url}/areas?q=a`)).status).toBe(200);
    const rawUrl = `${gateway.url}/listings?objectType=gård`;
    const { stdout } = await promisify(execFile)("curl", [
      "-s",
      "--cacert",
      fileWith(AUTHORITY.cert),
      rawUrl,
    ]);
    expect(JSON.parse(stdout)).toHaveProperty("listings");
    expect((await reach(`${gateway.adminUrl}/readyz`)).status).toBe(200);
    const before = await reach(gateway.url);

    write(AUTHORITY.issue());
    await gateway.logged("The new content is in use.", "server.tls", "admin.tls");
    expect((await reach(gateway.url)).serial).not.toBe(before.serial);
    expect((await reach(gateway.adminUrl)).serial).toBe((await reach(gateway.url)).serial);
  });

  it("keeps its certificate and logs the reason when the new files do not match", async () => {
    const { certFile, keyFile, write } = certificateFiles();
    const gateway = await startGateway({ env: { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } });
    const before = await reach(gateway.url);
    write({ cert: AUTHORITY.issue().cert, key: AUTHORITY.issue().key });
    await gateway.logged("The previous content stays in use.", "holds the key of another certificate");
    expect((await reach(gateway.url)).serial).toBe(before.serial);
    expect(await gateway.metric("gateway_files_refused")).toBe(1);
    const endsAt = await gateway.metric('gateway_certificate_end_timestamp_seconds{server="callers"}');
    expect(new Date(endsAt * 1000).toUTCString()).toBe(before.end);
  });
});

/** An HTTP proxy that leads every request and every tunnel to one port of this machine. */
async function startProxy(targetPort: number) {
  /** With the credentials. */
  const asked: string[] = [];
  const told = ({ headers }: http.IncomingMessage): string => headers["proxy-authorization"] ?? "nobody";
  const server = http.createServer((request, response) => {
    const { host, pathname, search } = new URL(request.url ?? "");
    asked.push(`${request.method} ${host} by ${told(request)}`);
    const path = pathname + search;
    const onward = http.request({ port: targetPort, path, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  server.on("connect", (request, socket: net.Socket) => {
    asked.push(`CONNECT ${request.url} by ${told(request)}`);
    const onward = net.connect(targetPort, "127.0.0.1", () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
    socket.on("close", () => onward.destroy());
    socket.pipe(onward).pipe(socket);
    for (const end of [socket, onward]) end.on("error", () => undefined);
  });
  return { url: `http://us%40er:pass@127.0.0.1:${await serve(server)}`, asked };
}

const BY_USER = `by Basic ${Buffer.from("us@er:pass").toString("base64")}`;

describe("an HTTP proxy", () => {
  it("is used as a tunnel for an upstream with TLS, whose certificate is checked", async () => {
    const upstream = await startUpstream((response) => void response.end(NO_AREAS));
    const upstreamPort = Number(new URL(upstream.env.UPSTREAM_URL).port);
    const front = await startTlsFront(upstreamPort, AUTHORITY.issue([UPSTREAM_HOST]));
    const proxy = await startProxy(front.port);
    const env = {
      ...gatewayEnv(`https://${UPSTREAM_HOST}`),
      BUDGET: "60/1m",
      UPSTREAM_CA_FILE: fileWith(AUTHORITY.cert),
      HTTPS_PROXY: proxy.url,
    };
    const gateway = await startGateway({ env });
    for (const path of ["/areas?q=a", "/areas?q=b"]) expect((await gateway.get(path)).status).toBe(200);
    expect(proxy.asked).toEqual([`CONNECT ${UPSTREAM_HOST}:443 ${BY_USER}`]);
    expect(gateway.log.join("")).not.toContain("pass@");
    // The doctor uses the tunnel, too.
    expect(await command(["doctor", "--call"], env)).toMatchObject({ code: 0 });
  });

  it("gets requests for an upstream without TLS, but not for excepted hosts; lower-case variables work too", async () => {
    const upstream = await startUpstream((response) => void response.end(NO_AREAS));
    const proxy = await startProxy(Number(new URL(upstream.env.UPSTREAM_URL).port));
    const proxied = { UPSTREAM_URL: `http://${UPSTREAM_HOST}`, http_proxy: proxy.url };
    const through = await startGateway({ env: proxied });
    expect((await through.get("/areas?q=a")).status).toBe(200);
    expect(proxy.asked).toEqual([`GET ${UPSTREAM_HOST} ${BY_USER}`]);

    const env = { ...upstream.env, HTTP_PROXY: proxy.url, NO_PROXY: ".example" };
    const around = await startGateway({ env });
    expect((await around.get("/areas?q=a")).status).toBe(200);
    expect(proxy.asked).toHaveLength(1);
  });

  it("that is down or silent leaves no request, streamed or not, without an answer, and holds no permit", async () => {
    const problems = { 9: "upstream-unreachable", [await serve(net.createServer())]: "upstream-timeout" };
    for (const [port, problem] of Object.entries(problems)) {
      const env = { ...gatewayEnv(`https://${UPSTREAM_HOST}`), HTTPS_PROXY: `http://127.0.0.1:${port}` };
      const gateway = await startGateway({ env, settings: "upstream: { connectTimeout: 300ms }" });
      for (const headers of [{}, { "cache-control": "no-store" }])
        expect(problemCode(await gateway.get("/areas?q=a", { headers }))).toBe(problem);
      expect(await gateway.metric("gateway_calls_in_flight")).toBe(0);
    }
  });
});

it("an app with a token is counted only with its token; its token and that of the admin port may change", async () => {
  const tokenFile = fileWith("the-token-of-web\n");
  const apps = [{ id: "web", tokenFile }, { id: "open" }];
  const settings = JSON.stringify({ apps, admin: { tokenFile }, log: { access: "on" } });
  const clock = createLeapingClock();
  const gateway = await startGateway({ settings, clock });
  let requests = 0;
  const countsAs = async (appId: string, token?: string): Promise<string> => {
    const id = `request-${++requests}`;
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const headers = { "x-app-id": appId, "x-request-id": id, ...authorization };
    await gateway.get("/areas?q=a", { headers });
    return String((await gateway.logged('"msg":"request"', id))["app"]);
  };
  expect(await countsAs("web", "the-token-of-web")).toBe("web");
  expect(await countsAs("web", "a-guess")).toBe("other");
  expect(await countsAs("web")).toBe("other");
  expect(await countsAs("open", "whatever")).toBe("open");
  clock.leap(60_000);
  expect(await countsAs("web")).toBe("other");
  for (const times of [1, 2])
    await gateway.logged("Requests name an app without its token.", `"times":${times}`);
  expect(await gateway.metric('gateway_app_tokens_refused_total{app="web"}')).toBe(3);

  writeFileSync(tokenFile, "another-token-of-web\n");
  await gateway.logged("The new content is in use.");
  expect(await countsAs("web", "another-token-of-web")).toBe("web");
  const statusWith = async (token: string): Promise<number> =>
    (await ask(`${gateway.adminUrl}/version`, { headers: { authorization: `Bearer ${token}` } })).status;
  expect(await Promise.all(["the-token-of-web", "another-token-of-web"].map(statusWith))).toEqual([401, 200]);
  expect(gateway.log.join("")).not.toContain("the-token-of-web");
  expect(gateway.log.join("")).not.toContain('another-token-of-web"');
});
