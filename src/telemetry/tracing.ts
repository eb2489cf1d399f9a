/**
 * Traces over OTLP. This file is the only one that loads OpenTelemetry, and it is imported only if tracing is on.
 *
 * The stages begin and end spans explicitly (`Trace` in events.ts). No library is patched, and nothing is added to the
 * requests that are sent to the upstream.
 */
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";

import type { CallerFacts, Observer, RequestRecord, Trace, Tracing } from "./events.ts";
import { build } from "./build.ts";
import { traceparentIn } from "./access-log.ts";

export interface TracingOptions {
  readonly observer: Pick<Observer, "outOfOrder" | "backInOrder">;
  /** Removes secrets from a text. */
  readonly redact: (text: string) => string;
}

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
function createTracing(options: TracingOptions, exporter: SpanExporter): Tracing {
  const own = resourceFromAttributes({
    "service.name": "property-gateway",
    "service.version": build.version,
  });
  const provider = new BasicTracerProvider({
    resource: own.merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(watched(exporter, options.observer))],
  });
  const tracer = provider.getTracer("property-gateway", build.version);
  return {
    start(caller) {
      const span = tracer.startSpan("request", { kind: SpanKind.SERVER }, contextOf(caller));
      const inside = trace.setSpan(ROOT_CONTEXT, span);
      const begin: Trace["begin"] = (name, attributes = {}) => {
        const kind = name === "upstream call" ? SpanKind.CLIENT : SpanKind.INTERNAL;
        return openSpan(tracer.startSpan(name, { kind }, inside), named(attributes, options));
      };
      return { begin, traceparent: traceparentOf(span), end: (record) => endRequest(span, record, options) };
    },
    // The exporter has already reported a collector that does not answer.
    close: () => provider.shutdown().catch(() => undefined),
  };
}

/** Continues the caller's trace, if the request carries one (W3C Trace Context). */
function contextOf({ headers }: CallerFacts): Context {
  const [, traceId, spanId, flags] = traceparentIn(headers)?.split("-") ?? [];
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  const traceFlags = Number.parseInt(flags ?? "", 16) & 1;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
}

function openSpan(span: Span, attributes: Attributes): ReturnType<Trace["begin"]> {
  span.setAttributes(attributes);
  return {
    end({ error, ...more } = {}) {
      span.setAttributes(prefixed(more));
      if (error !== undefined)
        span.setAttribute("error.type", error).setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
}

function endRequest(span: Span, record: RequestRecord, options: TracingOptions): void {
  const { method, resource, status, problem, id, app, outcome, tier, query, bytes } = record;
  const route = resource === "none" ? undefined : `/${resource}`;
  span.updateName(route === undefined ? method : `${method} ${route}`);
  span.setAttributes({
    "http.request.method": method,
    ...(route !== undefined && { "http.route": route }),
    "http.response.status_code": status,
    "http.response.body.size": bytes,
    ...named({ id, app, outcome, tier, query }, options),
  });
  if (problem !== undefined) span.setAttribute("error.type", problem);
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
  span.end();
}

type Values = Readonly<Record<string, string | number | undefined>>;

function named({ query, ...values }: Values, { redact }: TracingOptions): Attributes {
  return prefixed({ ...values, query: typeof query === "string" ? redact(query) : undefined });
}

/** Attributes that no standard defines begin with `gateway.`. */
function prefixed(values: Values): Attributes {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [`gateway.${name}`, value]));
}

const COLLECTOR = "the trace collector";

/** @returns the same exporter, which also reports its failures as an outage */
function watched(exporter: SpanExporter, observer: TracingOptions["observer"]): SpanExporter {
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const { error } = result;
        if (error === undefined) observer.backInOrder(COLLECTOR);
        else {
          observer.outOfOrder({
            what: COLLECTOR,
            cause: error.message,
            meanwhile: "Callers are not affected. The traces of this time are lost.",
            resources: [],
          });
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}
