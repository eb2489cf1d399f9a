/**
 * Traces over OTLP. This file is the only one that loads OpenTelemetry, and it is imported only if tracing is on.
 *
 * The stages begin and end spans explicitly (`Trace` in events.ts). No library is patched, and nothing is added to the
 * requests that are sent to the upstream.
 */
import { type Context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";

import type { CallerFacts, Observer, RequestRecord, SpanValues, Trace } from "./events.ts";
import { build } from "./build.ts";
import { traceparentIn } from "./access-log.ts";

export interface TracingOptions {
  readonly observer: Pick<Observer, "outOfOrder" | "backInOrder">;
  /** Removes secrets from a text. */
  readonly redact: (text: string) => string;
}

/** Traces requests. */
export type Tracing = ReturnType<typeof createTracing>;
/** The trace in the first stage, which ends it. */
export type RequestTrace = ReturnType<Tracing["start"]>;

/** @returns a function that creates the tracing of a gateway */
export async function loadTracing(
  protocol: "http/protobuf" | "http/json",
): Promise<(options: TracingOptions) => Tracing> {
  const { OTLPTraceExporter } = await (protocol === "http/json"
    ? import("@opentelemetry/exporter-trace-otlp-http")
    : import("@opentelemetry/exporter-trace-otlp-proto"));
  return (options) => createTracing(options, new OTLPTraceExporter());
}

/** The exporter reads its endpoint and headers from the environment (`OTEL_EXPORTER_OTLP_*`). */
function createTracing({ observer, redact }: TracingOptions, exporter: SpanExporter) {
  const own = resourceFromAttributes({
    "service.name": "property-gateway",
    "service.version": build.version,
  });
  const provider = new BasicTracerProvider({
    resource: own.merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(watched(exporter, observer))],
  });
  const tracer = provider.getTracer("property-gateway", build.version);

  /** Attributes that no standard defines begin with `gateway.`. OpenTelemetry omits undefined ones. */
  function named(values: SpanValues): SpanValues {
    const shown = (value: SpanValues[string]) => (typeof value === "string" ? redact(value) : value);
    return Object.fromEntries(
      Object.entries(values).map(([name, value]) => [`gateway.${name}`, shown(value)]),
    );
  }

  return {
    start: (caller: CallerFacts) => {
      const span = tracer.startSpan("request", { kind: SpanKind.SERVER }, contextOf(caller));
      const inside = trace.setSpan(ROOT_CONTEXT, span);
      const begin: Trace["begin"] = (name, values = {}) => {
        const kind = name === "upstream call" ? SpanKind.CLIENT : SpanKind.INTERNAL;
        const part = tracer.startSpan(name, { kind, attributes: named(values) }, inside);
        return {
          end({ error, ...more } = {}) {
            if (error !== undefined)
              part.setAttribute("error.type", error).setStatus({ code: SpanStatusCode.ERROR });
            part.setAttributes(named(more)).end();
          },
        };
      };
      const end = ({ id, app, outcome, tier, query, ...record }: RequestRecord): void => {
        const { method, resource, status, problem, bytes } = record;
        const route = resource === "none" ? undefined : `/${resource}`;
        span.updateName(route === undefined ? method : `${method} ${route}`);
        span.setAttributes({
          ...named({ id, app, outcome, tier, query }),
          "http.request.method": method,
          "http.route": route,
          "http.response.status_code": status,
          "http.response.body.size": bytes,
          "error.type": problem,
        });
        if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
        span.end();
      };
      return { begin, end, traceparent: traceparentOf(span) };
    },
    /**
     * Sends the remaining spans. It has no time limit of its own. Never rejects: the exporter has already reported a collector
     * that does not answer.
     */
    close: (): Promise<void> => provider.shutdown().catch(() => undefined),
  };
}

/** Continues the caller's trace, if the request carries one (W3C Trace Context). */
function contextOf({ headers }: CallerFacts): Context {
  const [, traceId, spanId, flags] = traceparentIn(headers)?.split("-") ?? [];
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  const traceFlags = Number.parseInt(flags ?? "", 16) & 1;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

/** @returns the W3C Trace Context of a span */
function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
}

const COLLECTOR = "the trace collector";

/** @returns the same exporter, which also reports its failures as an outage */
function watched(exporter: SpanExporter, observer: TracingOptions["observer"]): SpanExporter {
  const meanwhile = "Traces are lost. Check the collector and OTEL_EXPORTER_OTLP_ENDPOINT.";
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const cause = result.error?.message;
        if (cause === undefined) observer.backInOrder(COLLECTOR);
        else observer.outOfOrder({ what: COLLECTOR, cause, meanwhile, resources: [] });
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}
