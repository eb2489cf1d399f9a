import type { RefreshEnd, RefreshRecord, RequestRecord, UpstreamCallRecord } from "../types.ts";
import type { Resource } from "../interface/resources.ts";
import { FRESHNESS, TRAFFIC, UPSTREAM } from "./catalogue.ts";
import type { Instruments } from "./instruments.ts";

interface TrafficMetrics {
  readonly request: (record: RequestRecord) => void;
  readonly upstreamCall: (record: UpstreamCallRecord) => void;
  readonly refreshed: (record: RefreshRecord) => void;
  readonly warmed: (resource: Resource, end: RefreshEnd) => void;
}

/** What callers asked of us, and we of the upstream. */
export function registerTrafficMetrics({ counter, histogram }: Instruments): TrafficMetrics {
  const requests = counter(TRAFFIC.requests);
  const requestSeconds = histogram(TRAFFIC.requestSeconds);
  const upstreamRequests = counter(UPSTREAM.requests);
  const upstreamSeconds = histogram(UPSTREAM.requestSeconds);
  const credentialsRefused = counter(UPSTREAM.credentialsRefused);
  const refreshes = counter(FRESHNESS.refreshes);
  const warmFetches = counter(FRESHNESS.warmFetches);
  const adaptiveShadow = counter(FRESHNESS.adaptiveShadow);
  return {
    request({ app, resource, outcome, status, durationMs }) {
      requests.inc({ app, resource, outcome, status });
      requestSeconds.observe({ resource, outcome }, durationMs / 1000);
    },
    upstreamCall({ resource, cause, status, durationMs }) {
      upstreamRequests.inc({ resource, cause, status });
      upstreamSeconds.observe({ resource }, durationMs / 1000);
      if (status === 401 || status === 403) credentialsRefused.inc();
    },
    warmed: (resource, result) => warmFetches.inc({ resource, result }),
    refreshed({ resource, change, shadow }) {
      refreshes.inc({ resource, change });
      if (shadow !== undefined) adaptiveShadow.inc({ resource, effect: shadow });
    },
  };
}
