/** Apps that ask gateways over real sockets, again and again, for answers that are not cached. */
import http from "node:http";

import { ask } from "./ask.ts";

export interface AppCallers {
  readonly app: string;
  /** Loops at once. */
  readonly callers: number;
  /** Between an answer and the next question. */
  readonly thinkMs: number;
}

export interface AppAnswers {
  /** How long each answer with 200 took. */
  readonly answeredMs: number[];
  /** How long each refusal took. */
  readonly refusedMs: number[];
}

let questions = 0;

/**
 * Lets apps ask for a time. Their callers are spread over the gateways.
 * @param countFromMs what was asked before is not counted
 */
export async function askForAWhile(
  urls: readonly string[],
  apps: readonly AppCallers[],
  { forMs, countFromMs = 0 }: { readonly forMs: number; readonly countFromMs?: number },
): Promise<ReadonlyMap<string, AppAnswers>> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1_000 });
  const stop = new AbortController();
  const startedAt = performance.now();
  const answers = new Map(
    apps.map(({ app }): [string, AppAnswers] => [app, { answeredMs: [], refusedMs: [] }]),
  );

  async function loop({ app, thinkMs }: AppCallers, index: number): Promise<void> {
    for (let round = index; !stop.signal.aborted; round++) {
      const askedAt = performance.now();
      const url = `${urls[round % urls.length]}/areas?q=crowd-${questions++}`;
      const options = { agent, headers: { "x-app-id": app }, signal: stop.signal };
      const reply = await ask(url, options).catch(() => undefined);
      if (reply === undefined) return;
      const tookMs = performance.now() - askedAt;
      if (askedAt - startedAt >= countFromMs) {
        const seen = answers.get(app);
        (reply.status === 200 ? seen?.answeredMs : seen?.refusedMs)?.push(tookMs);
      }
      await pauseFor(reply.status === 200 ? thinkMs : Math.max(200, thinkMs), stop.signal);
    }
  }
  const loops = apps.flatMap((app) => Array.from({ length: app.callers }, (_, index) => loop(app, index)));
  await pauseFor(forMs, stop.signal);
  stop.abort();
  await Promise.all(loops);
  agent.destroy();
  return answers;
}

function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(done, ms);
    function done(): void {
      signal.removeEventListener("abort", done);
      clearTimeout(timer);
      resolve();
    }
    signal.addEventListener("abort", done, { once: true });
  });
}

/** The value that a part of the numbers does not exceed. */
export function percentile(numbers: readonly number[], part: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * part) - 1] ?? Number.NaN;
}
