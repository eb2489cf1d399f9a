/**
 * `doctor`: one line for each thing that a start needs, with the remedy. It changes nothing, and calls the API only if it is
 * asked to.
 */
import { once } from "node:events";
import { accessSync, constants, existsSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { dirname } from "node:path";

import type { Config } from "../config/config.ts";
import { settingWarnings } from "../config/combinations.ts";
import type { Environment } from "../config/env.ts";
import { refusesKey } from "../interface/resources.ts";
import { systemClock } from "../process/clock.ts";
import { systemRandom } from "../process/random.ts";
import { createRedisClients } from "../redis/connect.ts";
import { evictionPolicyOf } from "../redis/eviction.ts";
import { openDirectory } from "../sqlite/files.ts";
import { createAgent } from "../upstream/connections.ts";
import { createSigner, outgoingHeaders } from "../upstream/sign.ts";
import { examine } from "./check-config.ts";
import { statusOf } from "./client.ts";
import { CommandFailure } from "./exit.ts";
import { print } from "./print-table.ts";

type Finding = readonly [level: "ok" | "warning" | "problem", text: string];

type Check = (config: Config) => Finding | Promise<Finding>;

const CHECKS: Readonly<Record<string, Check>> = {
  DATA_DIR: checkDataDir,
  Redis: checkRedis,
  "property API": ({ upstream }) => checkReachable(upstream.url, "UPSTREAM_URL", upstream),
  "image server": ({ upstream }) => checkReachable(upstream.imageUrl, "UPSTREAM_IMAGE_URL", upstream),
};

/** @throws {CommandFailure} if there is a problem */
export async function runDoctor(env: Environment, mayCall: boolean): Promise<void> {
  const { examined, mistakes } = examine(env);
  const config = examined.usable?.config;
  let problems = 0;
  const report = (name: string, [level, text]: Finding): void => {
    if (level === "problem") problems++;
    print(`${level.padEnd(7)}  ${name.padEnd(12)}  ${text}`);
  };
  for (const mistake of mistakes) report("settings", ["problem", mistake]);
  if (mistakes.length === 0) report("settings", ["ok", "valid"]);
  if (config === undefined) throw new CommandFailure("The rest is checked when the settings are valid.");
  for (const text of settingWarnings(config)) report("settings", ["warning", text]);
  const checks = mayCall ? { ...CHECKS, "signed call": checkCall } : CHECKS;
  for (const [name, check] of Object.entries(checks)) report(name, await check(config));
  if (problems > 0)
    throw new CommandFailure(`Found ${problems === 1 ? "1 problem" : `${problems} problems`}.`);
}

function checkDataDir({ dataDir, redis }: Config): Finding {
  if (redis !== null) return ["ok", "not used; Redis keeps the budget"];
  if (dataDir === null)
    return ["warning", "not set, so a restart forgets which calls were made: set DATA_DIR or REDIS_URL"];
  // The gateway creates the directory, and those above it.
  let place = dataDir;
  while (!existsSync(place)) place = dirname(place);
  try {
    // With the dot, the check also fails if the path is a file.
    accessSync(`${place}/.`, constants.W_OK | constants.X_OK);
    if (place === dataDir) openDirectory(dataDir);
    return ["ok", dataDir];
  } catch (error) {
    const remedy = "change its owner or mode, or set DATA_DIR to another path";
    return ["problem", `${place} cannot be used (${faultText(error)}): ${remedy}`];
  }
}

const CONNECT_MS = 3_000;

async function checkRedis({ redis }: Config): Promise<Finding> {
  if (redis === null) return ["ok", "not set; this process keeps the budget alone"];
  const client = createRedisClients(() => redis).forCommands();
  try {
    await once(client, "ready", soon());
    const policy = await evictionPolicyOf(client);
    if (policy?.isSafe === false)
      return ["warning", `may evict the budget (${policy.name}): set its maxmemory-policy to volatile-lru`];
    const name = policy?.name ?? "it does not say whether it may evict the budget (INFO memory)";
    return ["ok", `answers; ${name}`];
  } catch (error) {
    return ["problem", `does not answer (${faultText(error)}): check REDIS_URL, password and network`];
  } finally {
    client.disconnect();
  }
}

/** Opens a connection as calls do, through the proxy if there is one, and sends nothing. */
async function checkReachable(url: string, variable: string, upstream: Config["upstream"]): Promise<Finding> {
  const { protocol, hostname } = new URL(url);
  const [{ request }, event] = protocol === "https:" ? [https, "secureConnect"] : [http, "connect"];
  const unsent = request(url, { agent: createAgent(url, upstream) }).on("error", () => undefined);
  const connected = async (): Promise<void> => {
    const [socket] = await once(unsent, "socket", soon());
    if (socket.connecting) await once(socket, event, soon());
  };
  const fault = await connected().then(() => undefined, faultText);
  unsent.destroy();
  if (fault === undefined) return ["ok", `${hostname} accepts connections`];
  return ["problem", `${hostname} cannot be reached (${fault}): check ${variable}, DNS, proxy and firewall`];
}

const soon = () => ({ signal: AbortSignal.timeout(CONNECT_MS) });

/** A call that costs little. The ledger does not record it. */
const TARGET = "/areas?q=a&limit=1";
const CALL_MS = 10_000;

async function checkCall({ upstream }: Config): Promise<Finding> {
  const sign = createSigner(
    upstream.callerId,
    () => upstream.privateKey.reveal(),
    systemClock.now,
    systemRandom.unique16,
  );
  const url = upstream.url + sign(TARGET).target;
  const headers = outgoingHeaders("json", upstream);
  const agent = createAgent(url, upstream);
  const status = await statusOf(url, { agent, timeout: CALL_MS, headers }).catch(faultText);
  agent.destroy();
  if (status === 200) return ["ok", "the API answered 200"];
  const remedy = "check UPSTREAM_CALLER_ID and UPSTREAM_PRIVATE_KEY";
  if (refusesKey(status, "areas")) return ["problem", `the API refuses the key (${status}): ${remedy}`];
  if (typeof status === "number") return ["problem", `the API answered ${status}: ask its owner`];
  return ["problem", `the API gave no answer (${status}): check UPSTREAM_URL`];
}

/** @returns why an attempt failed. An error about several addresses, or about a Cluster, contains the cause */
function faultText(error: unknown): string {
  const [first] = error instanceof AggregateError ? error.errors : [error];
  const cause: unknown = Reflect.get(Object(first), "lastNodeError") ?? first;
  if (!(cause instanceof Error)) return String(cause);
  return cause.name === "AbortError" ? `no answer within ${CONNECT_MS} ms` : cause.message;
}
