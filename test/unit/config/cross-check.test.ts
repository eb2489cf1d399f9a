import { describe, expect, it } from "vitest";

import { MINIMAL, problemsOf, problemsOfFile } from "./config-fixture.ts";

describe("settings that do not go together", () => {
  it("one port for two listeners", () => {
    expect(problemsOf({ ...MINIMAL, PORT: "7000", ADMIN_PORT: "7000" })).toEqual([
      "environment variable ADMIN_PORT: admin.port, environment variable PORT: server.port: both ports are 7000; " +
        "expected two different ones, or 0 for any free port",
    ]);
  });

  it.each([
    [
      "redis: { mode: cluster }",
      {},
      "gateway.yaml:1: redis.url: expected redis.url (REDIS_URL) too: it switches Redis on and holds user and password",
    ],
    [
      "redis: { mode: sentinel }",
      { REDIS_URL: "redis://h" },
      "gateway.yaml:1: redis.sentinel: expected the master's name and at least one Sentinel, because redis.mode is sentinel",
    ],
  ])("a way of running Redis without what it needs: %s", (yaml, env, line) => {
    const [problem = ""] = problemsOfFile(yaml, { ...MINIMAL, ...env });
    expect(problem.replace(/^[^:]+(:\d+)?: /, "")).toBe(line.replace(/^[^:]+(:\d+)?: /, ""));
  });

  it("headers that may take longer than the request they are a part of", () => {
    expect(problemsOfFile("server: { headersTimeout: 31s }")).toEqual([
      expect.stringMatching(
        /^gateway\.yaml:1: server\.headersTimeout, .*server\.requestTimeout: 31s for the headers is longer than 30s/,
      ),
    ]);
  });

  it.each([
    ["BUDGET", "60/1m,100/36d", "budget.limit"],
    ["budget.images", "300/1m,100/36d", "budget.images"],
  ])("a ledger that forgets what a window of %s still counts", (where, windows, name) => {
    const isVariable = where === "BUDGET";
    const env = { ...MINIMAL, ...(isVariable && { BUDGET: windows }) };
    const [problem, ...others] = problemsOfFile(isVariable ? "" : `budget: { images: "${windows}" }`, env);
    expect(others).toEqual([]);
    expect(problem).toMatch(/^\S+default.yaml:\d+: ledger.retention, /);
    expect(problem).toContain(
      `: ${name}: the ledger keeps requests for 35d, but a window of the budget is 36d long; expected a retention ` +
        "of at least that window",
    );
    expect(problemsOfFile("ledger: { retention: 36d }", { ...MINIMAL, BUDGET: "100/36d" })).toEqual([]);
  });

  it("and says nothing of how they go together where one of them is wrong by itself", () => {
    const problems = problemsOfFile("budget: { limit: none }\nledger: { retention: 1s }");
    expect(problems).toEqual([
      expect.stringContaining('budget.limit: found "none"'),
      expect.stringMatching(/ledger\.retention, .*budget\.images: /),
    ]);
  });

  it("a key and a file of the key", () => {
    expect(problemsOfFile("upstream:\n  privateKeyFile: /run/key")).toEqual([
      "environment variable UPSTREAM_PRIVATE_KEY: upstream.privateKey, gateway.yaml:2: upstream.privateKeyFile: " +
        "both are set; expected exactly one of the two",
    ]);
  });
});
