import { createServer, type IncomingMessage } from "node:http";

import { describe, expect, it } from "vitest";

import { readTracing } from "../../src/config/tracing.ts";
import { CALLER } from "../support/gateway.ts";
import { startFleet } from "../support/fleet.ts";
import type { Anything } from "../support/files.ts";
import { serve } from "../support/serve.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLERS_SPAN = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE}-${CALLERS_SPAN}-01`;

/** A stand-in for an OpenTelemetry collector: it accepts OTLP over HTTP and stores it. */
async function startCollector() {
  const exports: { path: string | undefined; type: string | undefined; body: Buffer }[] = [];
  const server = createServer((message: IncomingMessage, response) => {
    const chunks: Buffer[] = [];
    message.on("data", (chunk: Buffer) => chunks.push(chunk));
    message.on("end", () => {
      exports.push({ path: message.url, type: message.headers["content-type"], body: Buffer.concat(chunks) });
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  return { url: `http://127.0.0.1:${await serve(server)}`, exports };
}

/** The spans of JSON exports (opentelemetry-proto, trace/v1). */
function spansIn(exports: readonly { readonly body: Buffer }[]): Anything[] {
  const resources = exports.flatMap(
    ({ body }): Anything[] => JSON.parse(body.toString("utf8")).resourceSpans,
  );
  return resources.flatMap(({ scopeSpans }) => scopeSpans).flatMap(({ spans }) => spans);
}

function valuesOf({ attributes }: Anything): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }: Anything) => [key, Object.values(value)[0]]));
}

/** Counts what is loaded of OpenTelemetry when the process ends. prom-client always loads its interface, `api`. */
const COUNTER = `data:text/javascript,${encodeURIComponent(
  `import m from "node:module"; import { writeSync } from "node:fs"; process.on("exit", () => writeSync(1, "loaded " +
    Object.keys(m._cache).filter((f) => /opentelemetry.(?!api.)/.test(f)).length));`,
)}`;

describe("with OTEL_EXPORTER_OTLP_ENDPOINT", () => {
  it("a collector gets the spans of a request; the log has its traceparent, the upstream request has not", async () => {
    const collector = await startCollector();
    const fleet = await startFleet({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_BSP_SCHEDULE_DELAY: "50",
      OTEL_SERVICE_NAME: "gateway-of-the-test",
    });
    const replica = await fleet.start();
    const path = "/listings?areaId=76&limit=5";
    for (const [target, headers] of [
      [path, { "x-app-id": "web" }],
      [path, {}],
      [
        `${path}&key=${CALLER.privateKey}`,
        { "cache-control": "no-store", "x-request-id": CALLER.privateKey },
      ],
    ] as const)
      await replica.get(target, { headers: { traceparent: TRACEPARENT, ...headers } });
    await expect.poll(() => spansIn(collector.exports)).toHaveLength(9);
    const spans = spansIn(collector.exports);

    const requests = spans.filter(({ name }) => name === "GET /listings");
    expect(requests.map(valuesOf)).toMatchObject([
      { "gateway.outcome": "miss", "gateway.app": "web", "http.response.status_code": 200 },
      { "gateway.outcome": "hit", "gateway.tier": "memory" },
      { "gateway.outcome": "bypass" },
    ]);
    for (const request of requests)
      expect(request).toMatchObject({ traceId: TRACE, parentSpanId: CALLERS_SPAN });
    const partsOf = ({ spanId }: Anything): string[] =>
      spans.filter(({ parentSpanId }) => parentSpanId === spanId).map(({ name }) => name);
    expect(requests.map(partsOf)).toEqual([
      ["cache lookup", "queue wait", "upstream call"],
      ["cache lookup"],
      ["queue wait", "upstream call"],
    ]);
    expect(collector.exports[0]).toMatchObject({ path: "/v1/traces", type: "application/json" });
    const told = Buffer.concat(collector.exports.map(({ body }) => body)).toString("utf8");
    expect(told).toContain("gateway-of-the-test");
    expect(told).not.toContain(CALLER.privateKey);
    expect(told).not.toMatch(/hash=|unique=/);

    await replica.says(new RegExp(`"traceparent":"00-${TRACE}-${requests[0]?.spanId}-01"`));
    const upstream = fleet.sandbox.requests().map(({ headerNames }) => headerNames);
    expect(upstream).toHaveLength(2);
    expect(upstream.flat()).not.toContain("traceparent");
  });

  it("protobuf is the default, and a missing collector has one log line", async () => {
    const collector = await startCollector();
    const fleet = await startFleet({ OTEL_BSP_SCHEDULE_DELAY: "50" });
    const replica = await fleet.start({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces` });
    await replica.get("/areas?q=Nacka");
    const told = (): string => collector.exports.map(({ body }) => body.toString("latin1")).join("");
    await expect.poll(told).toContain("GET /areas");
    expect(collector.exports[0]?.type).toBe("application/x-protobuf");
    const cutOff = await fleet.start({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:9/",
      OTEL_EXPORTER_OTLP_TIMEOUT: "200",
    });
    expect((await cutOff.get("/areas?q=Nacka")).status).toBe(200);
    await cutOff.says(/"what":"the trace collector".*"Outage began"/);
    expect(await cutOff.kill("SIGTERM")).toBe(0);
  });
});

it("without OTEL variables no OpenTelemetry module is loaded", async () => {
  const fleet = await startFleet({ NODE_OPTIONS: `--import=${COUNTER}` });
  const replica = await fleet.start();
  await replica.get("/areas?q=Nacka");
  void replica.kill("SIGTERM");
  expect(await replica.says(/loaded (\d+)/)).toMatchObject({ 1: "0" });
});

/** Variables (ENDPOINT is one of a collector), and the protocol or the problem that comes of them. */
const VARIABLES = `
  ENDPOINT -> http/protobuf
  OTEL_TRACES_EXPORTER=otlp -> http/protobuf
  ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL=http/json -> http/json
  ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json -> http/json
  ENDPOINT OTEL_TRACES_EXPORTER=none -> no tracing
  ENDPOINT OTEL_SDK_DISABLED=true -> no tracing
  OTEL_TRACES_EXPORTER=zipkin -> OTEL_TRACES_EXPORTER: found "zipkin"; expected otlp or none
  ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL=grpc -> OTEL_EXPORTER_OTLP_PROTOCOL: found "grpc"; expected http/protobuf or`;

it.each(VARIABLES.trim().split("\n"))("%s", (line) => {
  const [given = "", wanted = ""] = line.trim().split(" -> ");
  const variables = given.replace("ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318").split(" ");
  const { protocol = "no tracing", problems } = readTracing(
    Object.fromEntries(variables.map((one) => one.split("="))),
  );
  expect(problems[0] ?? protocol).toContain(wanted);
});
