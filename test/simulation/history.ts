/**
 * One history: replicas that share a budget, in virtual time, while things go wrong; then a while in which
 * nothing does. Its number decides everything in it.
 */
import { mostWithin } from "../support/arrivals.ts";
import { createDice } from "../support/dice.ts";
import { checkPromise, checkQuiet, checkUse, checkWakeUps } from "./checks.ts";
import { heal, misfortunes, RECOVERY_MS } from "./misfortunes.ts";
import { agreed, drawPlan, type Fault, type Plan } from "./plan.ts";
import { createWorld, start, type World } from "./world.ts";

export interface Outcome {
  readonly plan: Plan;
  readonly problems: readonly string[];
  readonly log: readonly string[];
}

export async function playHistory(seed: number, allowed?: readonly Fault[]): Promise<Outcome> {
  const dice = createDice(seed);
  const plan = drawPlan(dice, allowed);
  const world = createWorld(plan, dice);
  try {
    await play(world);
  } catch (error) {
    world.failed(error);
  }
  for (const replica of world.alive) replica.kill();
  return { plan, problems: [...world.problems, ...world.watch.problems()], log: world.log };
}

async function play(world: World): Promise<void> {
  const { plan, dice, clock, arrivals, problems } = world;
  const longestMs = Math.max(...plan.terms.windows.map(({ windowMs }) => windowMs));
  for (let index = 0; index < plan.replicas; index++) start(world);
  await clock.advance(500);
  await misfortunes(world);
  await heal(world);
  await clock.advance(RECOVERY_MS + longestMs);
  await checkUse(world, longestMs);
  if (dice.chance(0.5)) await checkQuiet(world, longestMs);
  await checkPromise(world, longestMs);
  await checkWakeUps(world, longestMs);
  const instants = arrivals.map(({ at }) => at);
  for (const { limit, windowMs } of agreed(plan)) {
    const most = mostWithin(instants, windowMs);
    if (most > limit) problems.push(`overrun: ${most} of ${limit} within ${windowMs} ms`);
  }
}
