/**
 * Gateways that keep a list of answers warm, under a clock of the test's.
 */

import { expect } from "vitest";

import { ask } from "./ask.ts";
import { createFakeClock, type FakeClock } from "./fake-clock.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "./gateway.ts";

/** The latest that a gateway begins after its start. */
export const BEGINS_MS = 2_000;
/** Searches among listings are fresh for 300 s, and kept warm by a fetch after 270 s. */
export const AGAIN_MS = 270_000;
export const [NACKA, STOCKHOLM, AREAS] = [
  "/listings?areaId=76&limit=5",
  "/listings?areaId=1&limit=5",
  "/areas?q=Nacka",
];
export const LIST = `warm: [{ url: "${NACKA}" }, { url: "${STOCKHOLM}" }, { url: "${AREAS}" }]`;

export interface Started {
  readonly gateway: TestGateway;
  readonly clock: FakeClock;
}

/** A gateway that keeps a list warm, and has not begun to. */
export async function startWarm(
  list: string,
  options: TestGatewayOptions = {},
  startAt = Date.now(),
): Promise<Started> {
  const clock = createFakeClock(startAt);
  const gateway = await startGateway({
    clock,
    sandbox: { now: clock.now },
    ...options,
    settings: settingsWith(list, options.settings),
  });
  return { gateway, clock };
}

function settingsWith(list: string, settings: TestGatewayOptions["settings"] = ""): () => string {
  return () => `${typeof settings === "string" ? settings : settings()}\n${list}`;
}

interface WarmState {
  readonly query: string;
  readonly dueInSeconds: number;
  readonly last: string | null;
}

export async function warmStates({ adminUrl }: Pick<TestGateway, "adminUrl">): Promise<WarmState[]> {
  const shown: { readonly urls: WarmState[] } = JSON.parse((await ask(`${adminUrl}/cache/warm`)).text);
  return shown.urls;
}

/** Lets the clock of a gateway move until none of its answers is due. */
export async function attended({ gateway, clock }: Started): Promise<WarmState[]> {
  let states: WarmState[] = [];
  await expect
    .poll(async () => {
      await clock.advance(0);
      states = await warmStates(gateway);
      return states.filter(({ dueInSeconds }) => dueInSeconds <= 0);
    })
    .toEqual([]);
  return states;
}

/** What was asked of the upstream, oldest first. */
export function targets({ sandbox }: TestGateway): string[] {
  return sandbox.requests().map(({ path, query }) => `${path}?${query}`);
}
