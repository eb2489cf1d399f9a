/**
 * The pages for app developers, made from the tables of the OpenAPI document. `/docs` describes every operation, with examples in curl,
 * JavaScript and Python; `/` has the links. The pages load no other files, and support dark mode.
 */
import { hash } from "node:crypto";

import type { TypedText } from "../interface/media-types.ts";
import { type CallersDocumentOptions, INTRODUCTION, type Operation, operationsOf, TITLE } from "./callers.ts";
import { requestHeadersOf, RESPONSE_HEADERS } from "./headers.ts";
import { PROBLEMS } from "./problems.ts";
import type { DocumentedParameter, Schema } from "./shapes.ts";

/** @returns the page `/docs` */
export function docsPage(options: CallersDocumentOptions): TypedText {
  const operations = operationsOf(options);
  const sections = operations.map(
    (operation) => `<h2 id="${operation.name}">GET ${escaped(operation.path)}</h2>
${prose(`${operation.summary}.\n\n${operation.description}`)}
${operation.parameters.length === 0 ? "" : parameterTable(operation.parameters)}${examplesOf(operation, options.appIdHeader)}`,
  );
  const headers = Object.entries(RESPONSE_HEADERS).map(([name, { description, example }]) => [
    code(name),
    description,
    code(example),
  ]);
  const problems = PROBLEMS.map((one) => [`${one.status}`, code(one.code), `${one.title}.`, one.remedy]);
  return htmlPage(
    `<h1>${TITLE}</h1>${prose(INTRODUCTION)}
<nav><ul>${linksTo(operations, "")}
<li><a href="#request-headers">Request headers</a>, <a href="#response-headers">response headers</a>, <a href="#problems">problems</a></li></ul></nav>
${sections.join("\n")}
<h2 id="request-headers">Request headers</h2>${parameterTable(Object.values(requestHeadersOf(options.appIdHeader)))}
<h2 id="response-headers">Response headers</h2>${table(["Header", "Meaning", "Example"], headers)}
<h2 id="problems">Problems</h2>${table(["Status", "End of the type", "Title", "What to do"], problems)}`,
  );
}

/** @returns `/` for programs and for browsers */
export function homePages(options: CallersDocumentOptions): readonly [json: TypedText, html: TypedText] {
  const { version } = options;
  const operations = operationsOf(options);
  const links = { docs: "/docs", ...Object.fromEntries(operations.map(({ name, path }) => [name, path])) };
  const text = `${JSON.stringify({ title: TITLE, version, links }, undefined, 2)}\n`;
  const html = `<h1>${TITLE}</h1><p>Version ${escaped(version)}. <a href="/docs">The interface for app developers</a>,
<a href="/openapi.json">the same as an OpenAPI document</a>.</p><ul>${linksTo(operations, "/docs")}</ul>`;
  return [{ type: "application/json", text }, htmlPage(html)];
}

function linksTo(operations: readonly Operation[], page: string): string {
  const links = operations.map(
    ({ name, path, summary }) => `<a href="${page}#${name}">${escaped(path)}</a> ${escaped(summary)}`,
  );
  return links.map((link) => `<li>${link}</li>`).join("");
}

function parameterTable(parameters: readonly DocumentedParameter[]): string {
  const rows = parameters.map(({ name, description, schema, example }) => [
    code(name),
    `${description} ${valuesOf(schema)}`,
    code(String(example)),
  ]);
  return table(["Name", "Meaning", "Example"], rows);
}

function valuesOf({ type, items = {}, enum: values, minimum, maximum }: Schema): string {
  if (type === "array") return `Separated by commas. ${valuesOf(items)}`;
  if (values !== undefined) return `Values: ${values.map((value) => `\`${value}\``).join(", ")}.`;
  if (maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER) return `${minimum ?? ""} to ${maximum}.`;
  return "";
}

/** The examples show these parameters of searches, if the operation has them. */
const SHOWN = new Set(["areaId", "objectType", "limit"]);

function examplesOf({ path, parameters, content }: Operation, header: string): string {
  const filled = parameters
    .filter((parameter) => parameter.in === "path")
    .reduce((text, { name, example }) => text.replace(`{${name}}`, String(example)), path);
  const search = parameters
    .filter((parameter) => parameter.in === "query" && SHOWN.has(parameter.name))
    .map(({ name, example }) => `${name}=${encodeURIComponent(String(example)).replaceAll("%2C", ",")}`);
  const target = filled + (search.length > 0 ? `?${search.join("&")}` : "");
  const isJson = "application/json" in content;
  const texts = {
    curl: `curl ${isJson ? "-i" : "-o thumbnail.jpg"} -H '${header}: my-app' '@${target}'`,
    JavaScript: `const response = await fetch("@${target}", { headers: { "${header}": "my-app" } });
if (!response.ok) throw new Error(await response.text());
console.log(await response.${isJson ? "json" : "blob"}());`,
    Python: `import urllib.request
request = urllib.request.Request("@${target}", headers={"${header}": "my-app"})
with urllib.request.urlopen(request) as response:
    print(response.read())`,
  };
  return Object.entries(texts)
    .map(([language, text]) => `<h3>${language}</h3><pre>${escaped(text).replace("@", ORIGIN)}</pre>`)
    .join("");
}

/** The script replaces this address with that of the page in the browser. */
const ORIGIN = `<span class="origin">http://127.0.0.1:8080</span>`;
const SCRIPT = `for (const one of document.querySelectorAll(".origin")) one.textContent = location.origin;`;

const STYLE = `:root { color-scheme: light dark; color: CanvasText; background: Canvas; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h2 { margin-top: 3rem; } h3 { margin: 1rem 0 0.25rem; font-size: 1rem; }
pre, code { font: 0.9em/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
td:first-child code { white-space: nowrap; }
pre { margin: 0; padding: 0.75rem; white-space: pre-wrap; background: color-mix(in srgb, CanvasText 7%, Canvas); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: 0.25rem 1rem 0.25rem 0; }
tr { border-bottom: 1px solid color-mix(in srgb, CanvasText 20%, Canvas); }
@media (max-width: 40rem) { thead { display: none; } table, tbody, tr, td { display: block; } td { padding: 0.1rem 0; } }`;

const sourceOf = (text: string): string => `'sha256-${hash("sha256", text, "base64")}'`;

const HEADERS = {
  "Content-Security-Policy": `default-src 'none'; style-src ${sourceOf(STYLE)}; script-src ${sourceOf(SCRIPT)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};

function htmlPage(body: string): TypedText {
  const text = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${TITLE}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head>
<body><main>${body}</main><script>${SCRIPT}</script></body></html>
`;
  return { type: "text/html; charset=utf-8", text, headers: HEADERS };
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[]): string => row.map((cell) => `<td>${marked(cell)}</td>`).join("");
  return `<table><thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join("")}</tr></thead>
<tbody>${rows.map((row) => `<tr>${cells(row)}</tr>`).join("")}</tbody></table>`;
}

/** @param text paragraphs, separated by empty lines */
function prose(text: string): string {
  const paragraphs = text.split("\n\n").map((paragraph) => `<p>${marked(paragraph)}</p>`);
  return paragraphs.join("");
}

/** Marks code, for {@link marked}. */
const code = (text: string | number): string => `\`${text}\``;

/** @returns HTML of a text in which backticks mark code */
function marked(text: string): string {
  return escaped(text).replaceAll(/`([^`]*)`/g, "<code>$1</code>");
}

/** Attributes are in double quotes. */
function escaped(text: string): string {
  const html = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return html.replaceAll('"', "&quot;");
}
