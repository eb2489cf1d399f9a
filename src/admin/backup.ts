/** `POST /backup`: a consistent copy of the SQLite file, while the gateway runs. */
import { createReadStream, statSync } from "node:fs";
import { pipeline } from "node:stream/promises";

import { z } from "zod";

import { Problem } from "../errors.ts";
import type { WithCopy } from "../sqlite/backup.ts";
import { type Endpoint, mistake, post } from "./endpoint.ts";

/**
 * @param withCopy `undefined`: there is no SQLite file
 * @param unreadMs how long a client may read nothing. The next client waits meanwhile.
 */
export function backupEndpoint(withCopy: WithCopy | undefined, unreadMs: number): Endpoint {
  return post("/backup", z.unknown(), async (_body, _request, response) => {
    if (withCopy === undefined)
      throw mistake("This gateway has no SQLite file. With REDIS_URL, make a backup of Redis.");
    const copied = withCopy(async (file) => {
      response.type("application/vnd.sqlite3").set("Content-Length", String(statSync(file).size));
      response.setTimeout(unreadMs, () => response.destroy());
      // If the response ends early, the client notices: the body is shorter than Content-Length.
      await pipeline(createReadStream(file), response).catch(() => response.destroy());
    });
    await copied.catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      throw new Problem("store-unavailable", {
        detail: `The file cannot be copied: ${why}.`,
        remedy: "The copy is made in DATA_DIR first. Make room there for a second file of that size.",
      });
    });
  });
}
