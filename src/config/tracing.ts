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
  const wrong = (name: string, found: string, expected: string): { problems: readonly string[] } => ({
    problems: [`environment variable ${name}: found ${JSON.stringify(found)}; expected ${expected}`],
  });
  const exporter = env[EXPORTER]?.trim() ?? "";
  const isDisabled = env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true" || exporter === "none";
  if (isDisabled || (exporter === "" && !ENDPOINTS.some((name) => env[name]))) return { problems: [] };
  if (exporter !== "" && exporter !== "otlp") return wrong(EXPORTER, exporter, "otlp or none");
  const name = PROTOCOL_NAMES.find((one) => env[one]) ?? PROTOCOL_NAMES[0];
  const written = env[name]?.trim() || PROTOCOLS[0];
  const protocol = PROTOCOLS.find((one) => one === written);
  if (protocol !== undefined) return { protocol, problems: [] };
  return wrong(name, written, `${PROTOCOLS.join(" or ")}, or ${EXPORTER}=none to switch tracing off`);
}
