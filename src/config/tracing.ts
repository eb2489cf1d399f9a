/**
 * Reads from OpenTelemetry's own environment variables whether requests are traced, so that operators configure the gateway
 * like any other service. The library itself reads the other variables: endpoint, headers, sampler, service name.
 */
import type { Environment } from "./env.ts";

const PROTOCOLS = ["http/protobuf", "http/json"] as const;

export interface TracingSettings {
  /** The protocol in which spans are sent. */
  readonly protocol: (typeof PROTOCOLS)[number];
}

const ENDPOINTS = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const EXPORTER = "OTEL_TRACES_EXPORTER";
const PROTOCOL_NAMES = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];

/** @returns the settings; `undefined` if tracing is off, or if {@link tracingProblems} reports a problem */
export function tracingSettings(env: Environment): TracingSettings | undefined {
  if (!isWanted(env)) return undefined;
  const { value } = protocolIn(env);
  const protocol = PROTOCOLS.find((one) => one === value);
  return protocol && { protocol };
}

/** @returns one line for each variable with a value that the gateway does not support */
export function tracingProblems(env: Environment): string[] {
  const exporter = env[EXPORTER]?.trim() ?? "";
  if (!["", "otlp", "none"].includes(exporter) && !isDisabled(env))
    return [`environment variable ${EXPORTER}: found ${JSON.stringify(exporter)}; expected otlp or none`];
  const { name, value } = protocolIn(env);
  if (!isWanted(env) || PROTOCOLS.some((one) => one === value)) return [];
  return [
    `environment variable ${name}: found ${JSON.stringify(value)}; expected ${PROTOCOLS.join(" or ")}, ` +
      `or ${EXPORTER}=none to switch tracing off`,
  ];
}

function isDisabled(env: Environment): boolean {
  return env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true";
}

function isWanted(env: Environment): boolean {
  const exporter = env[EXPORTER]?.trim() ?? "";
  if (isDisabled(env) || exporter === "none") return false;
  return exporter === "otlp" || ENDPOINTS.some((name) => (env[name] ?? "") !== "");
}

function protocolIn(env: Environment): { readonly name: string; readonly value: string } {
  const name = PROTOCOL_NAMES.find((one) => (env[one] ?? "") !== "") ?? PROTOCOL_NAMES[0] ?? "";
  return { name, value: env[name]?.trim() || PROTOCOLS[0] };
}
