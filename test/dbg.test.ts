import { it } from "vitest";
import { createSandbox } from "../src/sandbox/sandbox.ts";
import { ask } from "./support/ask.ts";
import { CALLER } from "./support/gateway.ts";
import { run } from "./support/process.ts";
import { startRedis } from "./support/redis.ts";
it("x", async () => {
  const redis = await startRedis();
  const sandbox = createSandbox({ ...CALLER, sizes: { listings: 500, sold: 500 } });
  const { url } = await sandbox.listen();
  const settings = { HOST: "127.0.0.1", PORT: "0", ADMIN_PORT: "0", REDIS_URL: `redis://127.0.0.1:${redis.port}`, UPSTREAM_URL: url, UPSTREAM_IMAGE_URL: url, UPSTREAM_SERVICE: CALLER.service, UPSTREAM_CALLER_ID: CALLER.callerId, UPSTREAM_PRIVATE_KEY: CALLER.privateKey, UPSTREAM_USER_AGENT: "t", UPSTREAM_REFERRER: "https://www.example.com/", BUDGET: process.env["B"] ?? "100000/1m" };
  const start = async () => { const p = run(["gateway"], settings); const [, u = "", admin=""] = await p.says(/"callers":"(http:[^"]+)","admin":"(http:[^"]+)"/); return { p, u, admin }; };
  const rs = [await start(), await start(), await start()];
  await new Promise((r) => setTimeout(r, 1000));
  const t = async (i: number, n: string) => { const b = performance.now(); const r = await ask(`${rs[i]!.u}/listings?areaId=76&limit=${n}`); console.log(i, n, r.status, Math.round(performance.now() - b)); };
  await t(0, "1"); await t(1, "2"); await t(2, "3");
  rs[0]!.p.child.kill("SIGKILL");
  for (let i = 0; i < 8; i++) { await t(1, String(10 + i)); await t(2, String(30 + i)); }
  for (const r of rs) console.log(r.p.output().split("\n").filter((l) => !l.includes('"msg":"request"') && !l.includes("upstream call")).join("\n"));
  for (const r of rs) r.p.child.kill("SIGKILL");
  await sandbox.close(); await redis.close();
}, 60000);
