/** The problems of errors.ts as responses of an OpenAPI document. */
import { Problem, PROBLEM_CODES, PROBLEM_CONTENT_TYPE, problemBody, type ProblemCode } from "../errors.ts";
import { headerRefs } from "./headers.ts";
import type { Json } from "./shapes.ts";

type Port = "callers" | "admin";

/** The ports on which each problem occurs. A new problem must be added here. */
const PORTS: Readonly<Record<ProblemCode, readonly Port[]>> = {
  "malformed-request": ["callers", "admin"],
  "invalid-query": ["callers", "admin"],
  "unknown-path": ["callers", "admin"],
  "method-not-allowed": ["callers", "admin"],
  "not-acceptable": ["callers"],
  "request-timeout": ["callers", "admin"],
  "uri-too-long": ["callers", "admin"],
  "expectation-failed": ["callers", "admin"],
  "headers-too-large": ["callers", "admin"],
  "too-many-connections": ["callers", "admin"],
  "upstream-rejected": ["callers"],
  "not-found": ["callers"],
  "upstream-authentication-failed": ["callers"],
  "upstream-error": ["callers"],
  "upstream-unreachable": ["callers"],
  "upstream-invalid-response": ["callers"],
  "upstream-unavailable": ["callers"],
  "upstream-timeout": ["callers"],
  "invalid-admin-request": ["admin"],
  "admin-token-required": ["admin"],
  "foreign-page": ["admin"],
  "store-unavailable": ["admin"],
  "invalid-settings": ["admin"],
  "restart-needed": ["admin"],
  "quota-exceeded": ["callers"],
  "temporary-reduced-capacity": ["callers"],
  "shutting-down": ["callers"],
  "deadline-exceeded": ["callers"],
  "not-in-cache": ["callers"],
  "internal-error": ["callers", "admin"],
};

/** The body that `problemBody` writes for a code. */
interface ProblemExample {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly remedy: string;
}

function exampleOf(code: ProblemCode): ProblemExample {
  const example: ProblemExample = JSON.parse(problemBody(new Problem(code)).toString());
  return example;
}

/** The schema of every problem (RFC 9457). */
export const PROBLEM_SCHEMA: Json = {
  type: "object",
  required: ["type", "title", "status", "remedy"],
  properties: {
    type: { type: "string", format: "uri", description: "The kind of problem. It never changes." },
    title: { type: "string", description: "The kind of problem in words." },
    status: { type: "integer", description: "The response's status." },
    detail: { type: "string", description: "What is wrong in this case." },
    remedy: { type: "string", description: "What to do." },
    errors: {
      type: "array",
      description: "What is wrong with each parameter.",
      items: {
        type: "object",
        required: ["parameter", "value", "expected"],
        properties: {
          parameter: { type: "string" },
          value: { type: "string" },
          expected: { type: "string" },
          hint: { type: "string" },
        },
      },
    },
    moreErrors: { type: "integer", description: "The number of further errors." },
    problems: { type: "array", items: { type: "string" }, description: "A line for each mistake." },
  },
};

/** Responses by name (`Problem404`), one for each status that occurs on a port. */
export function problemResponses(port: Port): Record<string, Json> {
  const codes = PROBLEM_CODES.filter((code) => PORTS[code].includes(port));
  const byStatus = Map.groupBy(codes, (code) => new Problem(code).status);
  return Object.fromEntries(
    [...byStatus]
      .sort(([one], [other]) => one - other)
      .map(([status, ofStatus]) => [problemName(status), problemResponse(port, status, ofStatus)]),
  );
}

/** The statuses of the problems on a port, except that of an unknown method. */
export function problemStatuses(port: Port): number[] {
  const codes = PROBLEM_CODES.filter((code) => PORTS[code].includes(port) && code !== "method-not-allowed");
  return [...new Set(codes.map((code) => new Problem(code).status))].sort((one, other) => one - other);
}

/** The name of the response for all problems with a status. */
export function problemName(status: number): string {
  return `Problem${status}`;
}

/** The headers of a problem's response. */
export function problemHeaders(port: Port, status: number): Json {
  const more: Record<number, string[]> = {
    401: ["WWW-Authenticate"],
    405: ["Allow"],
    429: ["Retry-After"],
    502: ["Retry-After"],
    503: ["Retry-After"],
  };
  // The property service's own 400 and 404 are cached like answers.
  const ofAnswers = ["Vary", "Last-Modified", "Content-Encoding"];
  const ofShare = ["RateLimit-Policy", "RateLimit", "Preference-Applied"];
  return headerRefs([
    "X-Request-Id",
    "Cache-Status",
    "Age",
    "Cache-Control",
    "ETag",
    // On the admin port, a browser gets indented JSON.
    ...(port === "callers" ? ofShare : ["Vary"]),
    ...(port === "callers" && (status === 400 || status === 404) ? ofAnswers : []),
    ...(more[status] ?? []),
  ]);
}

function problemResponse(port: Port, status: number, codes: readonly ProblemCode[]): Json {
  const examples = codes.map((code) => [code, exampleOf(code)] as const);
  return {
    description: examples.map(([code, { title }]) => `\`${code}\`: ${title}.`).join(" "),
    headers: problemHeaders(port, status),
    content: {
      [PROBLEM_CONTENT_TYPE]: {
        schema: {
          allOf: [
            { $ref: "#/components/schemas/Problem" },
            {
              properties: {
                type: { enum: examples.map(([, { type }]) => type) },
                status: { const: status },
              },
            },
          ],
        },
        examples: Object.fromEntries(examples.map(([code, value]) => [code, { value }])),
      },
    },
  };
}
