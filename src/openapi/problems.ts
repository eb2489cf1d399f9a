/** The problems as responses of the OpenAPI document. */
import { PROBLEM_CODES, PROBLEM_CONTENT_TYPE } from "../errors.ts";
import { KINDS, problemType, REMEDIES } from "../problem-texts.ts";
import { HEADER_REFS } from "./headers.ts";
import type { Json } from "./shapes.ts";

/** The problems of callers, in the order of their statuses. */
export const PROBLEMS = PROBLEM_CODES.flatMap((code) => {
  const [status, title, port] = KINDS[code];
  const one = { code, type: problemType(code), title, status, remedy: REMEDIES[code] };
  return port === "admin" ? [] : [one];
}).toSorted((one, other) => one.status - other.status);

const text = (description: string, more: Json = {}): Json => ({ type: "string", description, ...more });
const member = { type: "string" };

/** The schema of every problem (RFC 9457). */
export const PROBLEM_SCHEMA: Json = {
  type: "object",
  required: ["type", "title", "status", "remedy"],
  properties: {
    type: text("The kind of problem. It never changes.", { format: "uri" }),
    title: text("The kind of problem in words."),
    status: { type: "integer", description: "The response's status." },
    detail: text("What is wrong in this case."),
    remedy: text("What to do."),
    errors: {
      type: "array",
      description: "What is wrong with each parameter.",
      items: {
        type: "object",
        required: ["parameter", "value", "expected"],
        properties: { parameter: member, value: member, expected: member, hint: member },
      },
    },
    moreErrors: { type: "integer", description: "The number of further errors." },
    problems: { type: "array", items: member, description: "A line for each mistake." },
  },
};

const BY_STATUS = [...Map.groupBy(PROBLEMS, ({ status }) => status)];

/** References to {@link PROBLEM_RESPONSES} by status. 405 answers methods other than the operation's own. */
export const PROBLEM_REFS: Json = Object.fromEntries(
  BY_STATUS.map(([status]) => [status, { $ref: `#/components/responses/Problem${status}` }]),
);

/** Responses by name (`Problem404`), one for each status that occurs. */
export const PROBLEM_RESPONSES: Json = Object.fromEntries(
  BY_STATUS.map(([status, problems]) => [`Problem${status}`, problemResponse(status, problems)]),
);

function problemResponse(status: number, problems: typeof PROBLEMS): Json {
  const schema = {
    allOf: [
      { $ref: "#/components/schemas/Problem" },
      { properties: { type: { enum: problems.map(({ type }) => type) }, status: { const: status } } },
    ],
  };
  const examples = Object.fromEntries(problems.map(({ code, ...value }) => [code, { value }]));
  return {
    description: problems.map(({ code, title }) => `\`${code}\`: ${title}.`).join(" "),
    headers: HEADER_REFS,
    content: { [PROBLEM_CONTENT_TYPE]: { schema, examples } },
  };
}
