/** A real Prometheus, on a free port of 127.0.0.1, in a directory of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { onTestFinished } from "vitest";

import { ask } from "./ask.ts";

interface Result {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface PrometheusServer {
  /** The series an expression gives now. Rejects, with Prometheus' own words, where it is none. */
  readonly query: (expression: string) => Promise<readonly Result[]>;
}

interface PrometheusOptions {
  /** Host and port to scrape. */
  readonly target: string;
  readonly ruleFile: string;
}

const SCRAPE_INTERVAL = "250ms";
const LISTENING = /msg="Listening on".* address=127\.0\.0\.1:(\d+)/;

/** Starts one; it stops when the test ends, and nothing is left behind. */
export async function startPrometheus({ target, ruleFile }: PrometheusOptions): Promise<PrometheusServer> {
  const dir = mkdtempSync(join(tmpdir(), "prometheus-"));
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
  const server = spawn(
    "prometheus",
    [
      `--config.file=${join(dir, "prometheus.yml")}`,
      `--storage.tsdb.path=${join(dir, "data")}`,
      "--web.listen-address=127.0.0.1:0",
    ],
    { cwd: dir, stdio: ["ignore", "ignore", "pipe"] },
  );
  const exited = once(server, "exit");
  onTestFinished(async () => {
    server.kill("SIGKILL");
    await exited;
    rmSync(dir, { recursive: true, force: true });
  });
  let log = "";
  const port = await new Promise<string>((resolve, reject) => {
    server.stderr.on("data", (chunk: Buffer) => {
      log += chunk.toString();
      const match = LISTENING.exec(log);
      if (match) resolve(match[1] ?? "");
    });
    server.on("error", reject);
    server.on("exit", () => reject(new Error(`Prometheus ended:\n${log}`)));
  });

  return {
    async query(expression) {
      const path = `query?query=${encodeURIComponent(expression)}`;
      const reply = await ask(`http://127.0.0.1:${port}/api/v1/${path}`);
      const answer: { status: "success"; data: QueryData } | { status: "error"; error: string } = JSON.parse(
        reply.text,
      );
      if (answer.status === "error") throw new Error(answer.error);
      return answer.data.result.map(({ metric, value: [, value] }) => ({ metric, value: Number(value) }));
    },
  };
}

interface QueryData {
  readonly result: readonly { metric: Record<string, string>; value: [at: number, value: string] }[];
}
