import { it, onTestFinished } from "vitest";
import { askForAWhile, percentile } from "../support/crowds.ts";
import { ask } from "../support/ask.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { startRedis } from "../support/redis.ts";
import { mostWithin } from "../support/arrivals.ts";
const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));
const cases = JSON.parse(process.env["CASES"] ?? "[]") as any[];
it.each(cases)("%j", async ({ replicas, budget, apps, forMs, from, settings, windowMs, limit, latency }) => {
  const redis = replicas > 1 ? await startRedis() : undefined;
  if (redis) onTestFinished(() => redis.close());
  const env = { BUDGET: budget, ...(redis && { REDIS_URL: `redis://127.0.0.1:${redis.port}`, REPLICAS: String(replicas) }) };
  const gs: TestGateway[] = [];
  for (let i = 0; i < replicas; i++) gs.push(await startGateway({ env: { ...env, ...(gs[0] && { UPSTREAM_URL: gs[0].sandboxUrl }) }, settings: settings ?? "", sandbox: latency ? { latencyMs: latency } as any : {} }));
  if (redis) for (const g of gs) while (Object((await ask(`${g.adminUrl}/budget`)).json()).api.mode !== "shared") await sleep(50);
  const t0 = Date.now();
  const got = await askForAWhile(gs.map((g) => g.url), apps, { forMs, countFromMs: from });
  const arrivals = gs[0]!.sandbox.requests().map(({ at }) => at);
  const steady = arrivals.filter((at) => at >= t0 + from && at < t0 + forMs).length;
  console.log("RES", budget, replicas, "max/window", mostWithin(arrivals, windowMs), "cutoffs", gs.map(g=>g.log.filter(l=>l.includes("does not answer the rate limiter")).length).join("+"), "used", (steady / (limit * (forMs - from) / windowMs)).toFixed(3),
    ...[...got].map(([app, a]) => `${app}: ok ${a.answeredMs.length} p50 ${Math.round(percentile(a.answeredMs, .5))} p95 ${Math.round(percentile(a.answeredMs, .95))} max ${Math.round(Math.max(...a.answeredMs))} refused ${a.refusedMs.length} late ${a.refusedMs.filter(x => x > 1000).length} (${a.refusedMs.filter(x => x > 1000).map(x=>Math.round(x/100)/10).sort((a,b)=>a-b).join(" ")}) st ${JSON.stringify(Object.groupBy(a.statuses.map(String), x=>x)).replace(/\[([^\]]*)\]/g, (_m, l) => String(l.split(",").length))}`));
}, 200000);
