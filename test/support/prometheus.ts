/** A real Prometheus, on a free port of 127.0.0.1, in a directory of its own. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { ask } from "./ask.ts";
import { type Anything, temporaryDirectory } from "./files.ts";
import { runProgram } from "./process.ts";

const SCRAPE_INTERVAL = "250ms";

/**
 * Starts a Prometheus. It stops when the test ends, and leaves nothing behind.
 * @param target host and port to scrape
 */
export async function startPrometheus(target: string, ruleFile: string) {
  const dir = temporaryDirectory();
  const config = {
    global: {
      scrape_interval: SCRAPE_INTERVAL,
      scrape_timeout: SCRAPE_INTERVAL,
      evaluation_interval: SCRAPE_INTERVAL,
    },
    rule_files: [ruleFile],
    scrape_configs: [{ job_name: "the-gateway", static_configs: [{ targets: [target] }] }],
  };
  // What is JSON is YAML too.
  writeFileSync(join(dir, "prometheus.yml"), JSON.stringify(config));
  const { says } = runProgram("prometheus", [
    `--config.file=${join(dir, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(dir, "data")}`,
    "--web.listen-address=127.0.0.1:0",
  ]);
  const [, port] = await says(/msg="Listening on".* address=127\.0\.0\.1:(\d+)/);

  return {
    /** The series that an expression gives now. Rejects with Prometheus' message if the expression is invalid. */
    async query(expression: string): Promise<readonly { readonly value: number }[]> {
      const path = `query?query=${encodeURIComponent(expression)}`;
      const reply = await ask(`http://127.0.0.1:${port}/api/v1/${path}`);
      const { status, data, error } = Object(reply.json());
      if (status === "error") throw new Error(error);
      return data.result.map(({ value: [, value] }: Anything) => ({ value: Number(value) }));
    },
  };
}
