/** The problems of errors.ts as responses of an OpenAPI document. */
import { Problem, PROBLEM_CODES, PROBLEM_CONTENT_TYPE, problemBody, type ProblemCode } from "../errors.ts";
import { headerRefs } from "./headers.ts";
import type { Json } from "./shapes.ts";

/** Problems that occur on the admin port only. */
const OPERATORS: ReadonlySet<ProblemCode> = new Set([
  "invalid-admin-request",
  "admin-token-required",
  "foreign-page",
  "store-unavailable",
  "invalid-settings",
  "restart-needed",
]);

const CODES = PROBLEM_CODES.filter((code) => !OPERATORS.has(code));

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

/** Responses by name (`Problem404`), one for each status that occurs. */
export function problemResponses(): Record<string, Json> {
  const byStatus = Map.groupBy(CODES, (code) => new Problem(code).status);
  return Object.fromEntries(
    [...byStatus]
      .sort(([one], [other]) => one - other)
      .map(([status, ofStatus]) => [problemName(status), problemResponse(status, ofStatus)]),
  );
}

/** The statuses of the problems. 405 answers methods other than the operation's own. */
export function problemStatuses(): number[] {
  return [...new Set(CODES.map((code) => new Problem(code).status))].sort((one, other) => one - other);
}

/** The name of the response for all problems with a status. */
export function problemName(status: number): string {
  return `Problem${status}`;
}

/** The headers of a problem's response. */
function problemHeaders(status: number): Json {
  const more: Record<number, string[]> = {
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
    ...ofShare,
    ...(status === 400 || status === 404 ? ofAnswers : []),
    ...(more[status] ?? []),
  ]);
}

function problemResponse(status: number, codes: readonly ProblemCode[]): Json {
  const examples = codes.map((code) => [code, exampleOf(code)] as const);
  return {
    description: examples.map(([code, { title }]) => `\`${code}\`: ${title}.`).join(" "),
    headers: problemHeaders(status),
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
