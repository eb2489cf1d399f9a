/**
 * Reads from OpenTelemetry's own environment variables whether requests are traced, so that operators configure the gateway
 * like any other service. The library itself reads the other variables: endpoint, headers, sampler, service name.
 */
import type { Environment } from "./env.ts";

const PROTOCOLS = ["http/protobuf", "http/json"] as const;
const EXPORTER = "OTEL_TRACES_EXPORTER";
const ENDPOINTS = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOL_NAMES = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] as const;

/**
 * @returns the protocol in which spans are sent, absent if tracing is off; and one line for each variable with a value that the
 *   gateway does not support
 */
export function readTracing(env: Environment): {
  readonly protocol?: (typeof PROTOCOLS)[number];
  readonly problems: readonly string[];
} {
  const exporter = env[EXPORTER]?.trim() ?? "";
  if (env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true" || exporter === "none")
    return { problems: [] };
  if (exporter !== "" && exporter !== "otlp") {
    const found = JSON.stringify(exporter);
    return { problems: [`environment variable ${EXPORTER}: found ${found}; expected otlp or none`] };
  }
  if (exporter === "" && !ENDPOINTS.some((name) => env[name])) return { problems: [] };
  const name = PROTOCOL_NAMES.find((one) => env[one]) ?? PROTOCOL_NAMES[0];
  const written = env[name]?.trim() || PROTOCOLS[0];
  const protocol = PROTOCOLS.find((one) => one === written);
  if (protocol !== undefined) return { protocol, problems: [] };
  const expected = `expected ${PROTOCOLS.join(" or ")}, or ${EXPORTER}=none to switch tracing off`;
  return { problems: [`environment variable ${name}: found ${JSON.stringify(written)}; ${expected}`] };
}
