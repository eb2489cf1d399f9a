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

/** The files by path. Those of libraries are in `node_modules`. */
const FILES: Record<string, string> = {
  "/": import.meta.resolve("./page/status.html"),
  "/page/uplot.js": import.meta.resolve("uplot/dist/uPlot.esm.js"),
  "/page/uplot.css": import.meta.resolve("uplot/dist/uPlot.min.css"),
};
for (const name of readdirSync(new URL("page/", import.meta.url)))
  FILES[`/page/${name}`] = import.meta.resolve(`./page/${name}`);

export function pageEndpoints(): Endpoint[] {
  return Object.entries(FILES).map(([path, file]) =>
    get(path, {}, async (_query, _request, response) => {
      const content = await readFile(fileURLToPath(file));
      // Express adds the ETag, and answers 304 if the browser has the file.
      response.set(HEADERS).type(extname(file)).send(content);
    }),
  );
}
