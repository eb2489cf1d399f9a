/** Gateways in this process that share a budget through Redis. */
import { expect } from "vitest";

import { ask } from "./ask.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "./gateway.ts";

/** The budget of the API as the admin port at a URL shows it. */
export async function budgetAt(adminUrl: string): Promise<{
  readonly mode: string;
  readonly windows: readonly { readonly spent: number }[];
  readonly queue: { readonly interactive: number };
}> {
  return Object((await ask(`${adminUrl}/budget`)).json()).api;
}

/** Resolves when the gateways have joined those that share the budget. */
export async function expectShared(...gateways: readonly { readonly adminUrl: string }[]): Promise<void> {
  for (const { adminUrl } of gateways)
    await expect.poll(async () => (await budgetAt(adminUrl)).mode).toBe("shared");
}

type SharedOptions = TestGatewayOptions & Required<Pick<TestGatewayOptions, "redis">>;

/** Starts a gateway that has joined those on its Redis. */
export async function startShared(options: SharedOptions): Promise<TestGateway> {
  const gateway = await startGateway(options);
  await expectShared(gateway);
  return gateway;
}

/** Two gateways on one Redis, in front of one upstream. */
export async function startTwo(options: SharedOptions): Promise<readonly [TestGateway, TestGateway]> {
  const env = { REPLICAS: "2", ...options.env };
  const first = await startGateway({ ...options, env });
  const second = await startGateway({ ...options, env, beside: first });
  await expectShared(first, second);
  return [first, second];
}
