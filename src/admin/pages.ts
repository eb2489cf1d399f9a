/** The status page at `/` and its files. They load nothing from other hosts. */
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

import { type Endpoint, get } from "./endpoint.ts";

const HEADERS = {
  // Allows only this port's own files and `data:` images; no inline scripts or styles.
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-cache",
};

/** The files by path. Those of libraries are served from `node_modules`. */
const FILES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    readdirSync(new URL("page/", import.meta.url)).map((name) => [`/page/${name}`, own(name)]),
  ),
  "/": own("status.html"),
  "/page/uplot.js": import.meta.resolve("uplot/dist/uPlot.esm.js"),
  "/page/uplot.css": import.meta.resolve("uplot/dist/uPlot.min.css"),
};

export function pageEndpoints(): Endpoint[] {
  return Object.entries(FILES).map(([path, file]) =>
    get(path, {}, async (_query, _request, response) => {
      const content = await readFile(fileURLToPath(file));
      // Express adds the ETag, and answers 304 if the browser has the file.
      response.set(HEADERS).type(extname(file)).send(content);
    }),
  );
}

function own(name: string): string {
  return new URL(`page/${name}`, import.meta.url).href;
}
