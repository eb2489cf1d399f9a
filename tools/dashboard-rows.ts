/** The dashboard's rows about callers, as data: at a glance, what was saved, traffic. */
import {
  ANSWERED,
  CALLED,
  FAILED,
  increase,
  quantiles,
  rate,
  rateBy,
  series,
  shareOf,
  type RowSpec,
} from "./dashboard-queries.ts";

const AT_A_GLANCE: RowSpec = {
  title: "At a glance",
  panels: [
    {
      title: "Requests",
      description: "Requests of callers per second.",
      unit: "reqps",
      as: "number",
      queries: [{ expr: `sum(${rate("gateway_requests_total")})`, legend: "requests" }],
    },
    {
      title: "From the cache",
      description:
        "Of the requests that got an answer, the part that was answered from the cache at once. It includes expired answers that are refreshed in the background. What is normal depends on the requests: GatewayHitRatioFallen compares it with the day before.",
      unit: "percentunit",
      as: "number",
      queries: [
        { expr: shareOf("gateway_requests_total", 'outcome=~"hit|updating"', ANSWERED), legend: "hits" },
      ],
    },
    {
      title: "Budget left",
      description:
        "The part that is left of the fullest window. Below a tenth, GatewayBudgetNearlySpent fires.",
      unit: "percentunit",
      as: "number",
      levels: { good: "high", warning: 0.25, critical: 0.1 },
      queries: [
        {
          expr: `min(${series("gateway_budget_remaining")} / ${series("gateway_budget_limit")})`,
          legend: "left",
        },
      ],
    },
    {
      title: "Upstream failures",
      description:
        "The part of the calls to the API that failed: 5xx, or no usable answer. Above one half, GatewayUpstreamDown fires.",
      unit: "percentunit",
      as: "number",
      levels: { good: "low", warning: 0.1, critical: 0.5 },
      queries: [{ expr: shareOf("gateway_upstream_requests_total", FAILED, CALLED), legend: "failed" }],
    },
    {
      title: "Errors",
      description: "The part of the requests that were answered with 5xx. Above 5%, GatewayErrors fires.",
      unit: "percentunit",
      as: "number",
      levels: { good: "low", warning: 0.01, critical: 0.05 },
      queries: [
        {
          expr: `sum(${rate("gateway_problems_total", 'status=~"5.."')}) / sum(${rate("gateway_requests_total")})`,
          legend: "errors",
        },
      ],
    },
    {
      title: "Slowest twentieth",
      description: "One request in twenty takes this long or longer. Above 2.5 s, GatewaySlow fires.",
      unit: "s",
      as: "number",
      levels: { good: "low", warning: 1, critical: 2.5 },
      queries: [
        {
          expr: `histogram_quantile(0.95, sum by (le) (${rate("gateway_request_duration_seconds_bucket")}))`,
          legend: "p95",
        },
      ],
    },
    {
      title: "Calls saved",
      description: "The part of the requests that needed no call to the API of their own.",
      unit: "percentunit",
      as: "number",
      queries: [
        {
          expr: `sum(${rate("gateway_upstream_calls_saved_total")}) / sum(${rate("gateway_requests_total")})`,
          legend: "saved",
        },
      ],
    },
    {
      title: "Processes",
      description: "Processes that Prometheus can scrape.",
      unit: "short",
      as: "number",
      queries: [{ expr: `count(${series("gateway_build_info")})`, legend: "processes" }],
    },
  ],
};

const SAVED: RowSpec = {
  title: "What was saved",
  panels: [
    {
      title: "Saved calls by cause",
      description:
        "Requests per second that needed no call of their own. `hit`: cached; `collapsed`: joined another request's call; `folded`: cut from a stored block; `past_end`: a stored block shows that there are no records; `refused`: had a mistake.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("cause", "gateway_upstream_calls_saved_total")],
    },
    {
      title: "Requests and calls",
      description: "Requests of callers per second, and calls to the API per second.",
      unit: "reqps",
      queries: [
        { expr: `sum(${rate("gateway_requests_total")})`, legend: "requests" },
        { expr: `sum(${rate("gateway_upstream_requests_total")})`, legend: "calls" },
      ],
    },
    {
      title: "Calls per 1,000 requests",
      description: "Fewer is better. It includes refreshes that no caller waited for.",
      unit: "short",
      queries: [
        {
          expr: `1000 * sum(${rate("gateway_upstream_requests_total")}) / sum(${rate("gateway_requests_total")})`,
          legend: "calls",
        },
      ],
    },
    {
      title: "Saved in this period",
      description: "Calls that were not made, over the time that the dashboard shows.",
      unit: "short",
      as: "number",
      queries: [{ expr: `sum(${increase("gateway_upstream_calls_saved_total")})`, legend: "saved" }],
    },
    {
      title: "Sent in this period",
      description: "Calls to the API over the time that the dashboard shows.",
      unit: "short",
      as: "number",
      queries: [{ expr: `sum(${increase("gateway_upstream_requests_total")})`, legend: "sent" }],
    },
  ],
};

const TRAFFIC: RowSpec = {
  title: "Traffic",
  panels: [
    {
      title: "Requests by app",
      description: "`other`: apps without a label of their own.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("app", "gateway_requests_total")],
    },
    {
      title: "Requests by resource",
      description: "`none`: refused before the path was known.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("resource", "gateway_requests_total")],
    },
    {
      title: "Outcomes",
      description: "How requests ended.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("outcome", "gateway_requests_total")],
    },
    {
      title: "Answers from the cache, and stale ones",
      description:
        "As parts of all requests that got an answer. `updating`: expired, served, and refreshed in the background.",
      unit: "percentunit",
      queries: [
        { expr: shareOf("gateway_requests_total", 'outcome=~"hit|updating"', ANSWERED), legend: "hits" },
        { expr: shareOf("gateway_requests_total", 'outcome="updating"', ANSWERED), legend: "updating" },
        { expr: shareOf("gateway_requests_total", 'outcome="stale"', ANSWERED), legend: "stale" },
      ],
    },
    {
      title: "Errors by status",
      description: "Responses of 400 and above; 499: the caller hung up.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("status", "gateway_requests_total", 'status=~"[45].."')],
    },
    {
      title: "Errors by problem",
      description: "Responses with a problem, by its code. docs/problems.md explains each code.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("problem", "gateway_problems_total")],
    },
    {
      title: "Refreshes",
      description: "Fetches of answers that were already cached, by whether the answer had changed.",
      unit: "reqps",
      as: "stacked",
      queries: [rateBy("change", "gateway_refreshes_total")],
    },
    {
      title: "Time to answer",
      description: "From a request's arrival to the end of its response, by outcome.",
      unit: "s",
      queries: quantiles("gateway_request_duration_seconds", "outcome"),
    },
  ],
};

export const CALLER_ROWS: readonly RowSpec[] = [AT_A_GLANCE, SAVED, TRAFFIC];
