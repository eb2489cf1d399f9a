/** Gateways in this process that share a budget through Redis. */
import { expect } from "vitest";

import { ask } from "./ask.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "./gateway.ts";
import type { RedisServer } from "./redis.ts";

/** A busy machine may delay Redis. No gateway may go on without it because of that. */
export const PATIENT = "redis: { timeout: 10s }\n";

/** The budget of the API as the admin port at a URL shows it. */
export async function budgetAt(adminUrl: string): Promise<{
  readonly mode: string;
  readonly windows: readonly { readonly spent: number }[];
  readonly queue: { readonly interactive: number };
}> {
  return Object((await ask(`${adminUrl}/budget`)).json()).api;
}

/** Resolves when the gateway has joined those that share the budget. */
export async function expectShared(adminUrl: string): Promise<void> {
  await expect.poll(async () => (await budgetAt(adminUrl)).mode).toBe("shared");
}

/** Two gateways on one Redis, in front of the first one's upstream. */
export async function startTwo(
  { port }: Pick<RedisServer, "port">,
  {
    env,
    settings = "",
    timeouts = PATIENT,
  }: Pick<TestGatewayOptions, "env" | "settings"> & { readonly timeouts?: string } = {},
): Promise<readonly [TestGateway, TestGateway]> {
  const patient = (): string => timeouts + (typeof settings === "string" ? settings : settings());
  const shared = { REDIS_URL: `redis://127.0.0.1:${port}`, REPLICAS: "2", ...env };
  const first = await startGateway({ env: shared, settings: patient });
  const upstream = { UPSTREAM_URL: first.sandboxUrl, UPSTREAM_IMAGE_URL: first.sandboxUrl };
  const second = await startGateway({ env: { ...shared, ...upstream }, settings: patient });
  await Promise.all([first, second].map(({ adminUrl }) => expectShared(adminUrl)));
  return [first, second];
}
