/** What goes wrong in a history, and how it is mended. */
import { PRIORITIES } from "../../src/types.ts";
import { agreed, APPS, type Fault } from "./plan.ts";
import type { Replica } from "./replica.ts";
import { emptyMemory, type Memory } from "./shared-model.ts";
import { callOf, start, type World } from "./world.ts";

/** Rejoining, and until those that were replaced are not waited for any more. */
export const RECOVERY_MS = 7_000;
const STEP_MS = 100;
const RESOURCES = ["listings", "sold"] as const;

export async function misfortunes(world: World): Promise<void> {
  const { plan, dice, clock, upstream } = world;
  const { faultyMs, faultsPerStep } = plan.pace;
  const kept: Memory[] = [];
  const from = clock.monotonic();
  upstream.slowestMs = dice.pick([20, 200, 1_400]);
  const eager = dice.chance(0.5);
  const [priorities, resources] = [dice.some(PRIORITIES), dice.some(RESOURCES)];
  while (clock.monotonic() < from + faultyMs) {
    if (clock.monotonic() > from + faultyMs / 2) world.isLater = true;
    for (const replica of world.alive) {
      if (eager || dice.chance(0.1))
        replica.want(
          { app: dice.pick(APPS), priority: dice.pick(priorities), resource: dice.pick(resources) },
          dice.between(1, eager ? 20 : 10),
        );
    }
    if (dice.chance(0.3)) kept.push(world.model.snapshot());
    if (kept.length > 10) kept.shift();
    if (dice.chance(faultsPerStep)) goWrong(world, dice.pick(plan.faults), kept);
    await clock.advance(STEP_MS);
  }
}

/** Undoes something after a while. */
function later({ clock, dice, plan }: World, mostMs: number, undo: () => void): void {
  clock.after(dice.between(50, Math.min(mostMs, plan.pace.longestFaultMs)), undo);
}

function goWrong(world: World, fault: Fault, kept: readonly Memory[]): void {
  const replica = anyOf(world);
  world.note(`fault: ${fault} ${replica?.name ?? ""}`);
  switch (fault) {
    case "slow":
    case "loss":
    case "news-loss":
    case "slow-down":
      return worsen(world, fault);
    case "outage-of-all":
    case "restart-kept":
    case "restart-partly":
    case "restart-lost":
      return hitServer(world, fault, kept);
    case "outage-of-one":
    case "stall":
    case "kill":
    case "stop":
      if (replica !== undefined) hitReplica(world, fault, replica);
  }
}

const anyOf = ({ alive, dice }: World): Replica | undefined =>
  alive.size > 0 ? dice.pick([...alive]) : undefined;

function worsen(world: World, fault: "slow" | "loss" | "news-loss" | "slow-down"): void {
  const { dice, weather, upstream } = world;
  switch (fault) {
    case "slow":
      weather.slowestMs = dice.pick([30, 150, 500]);
      return later(world, 3_000, () => void (weather.slowestMs = 5));
    case "loss":
      weather.loss = dice.pick([0.02, 0.3]);
      return later(world, 3_000, () => void (weather.loss = 0));
    case "news-loss":
      weather.newsLoss = dice.pick([0.1, 1]);
      return later(world, 3_000, () => void (weather.newsLoss = 0));
    case "slow-down":
      upstream.slowDown = 0.2;
      return later(world, 2_000, () => void (upstream.slowDown = 0));
  }
}

function hitServer(world: World, fault: Fault, kept: readonly Memory[]): void {
  const { dice, weather, alive, model, note } = world;
  // One that is about to go may be the last that could tell a server what it has lost.
  const isSettled = [...alive].every((replica) => replica.link.hasJoined && !replica.isStopping());
  if (!isSettled || !weather.isUp || alive.size === 0) return;
  weather.isUp = false;
  later(world, dice.pick([200, 6_000]), () => {
    if (fault !== "outage-of-all") model.restart(leftAfter(world, fault, kept));
    if (fault !== "outage-of-all" && fault !== "restart-kept") world.lostAt = world.clock.monotonic();
    note("the server is there");
    weather.isUp = true;
    for (const each of alive) if (each.link.isUp) each.check();
  });
}

function leftAfter({ model, dice }: World, fault: Fault, kept: readonly Memory[]): Memory {
  if (fault === "restart-kept") return model.snapshot();
  return fault === "restart-lost" || kept.length === 0 ? emptyMemory() : dice.pick(kept);
}

function hitReplica(
  world: World,
  fault: "outage-of-one" | "stall" | "kill" | "stop",
  replica: Replica,
): void {
  if (fault === "stall") {
    const stallMs = world.dice.pick([150, 800, 2_000, 4_000]);
    return replica.stall(Math.min(stallMs, world.plan.pace.longestFaultMs));
  }
  if (fault === "outage-of-one") {
    if (!replica.link.hasJoined) return;
    return cutOff(world, replica);
  }
  if (!world.weather.isUp || replica.hasSecrets() || !isTold(world)) return;
  if (fault === "stop") return void replica.stop().then(() => replace(world, replica));
  replica.kill();
  replace(world, replica);
}

/** Whether a server that has lost its memory has been told by everybody who knows. */
const isTold = ({ alive, lostAt }: World): boolean => [...alive].every(({ link }) => link.toldAt >= lostAt);

/** Now and then it hears no more a moment before. */
function cutOff(world: World, { link, check }: Replica): void {
  const { clock, dice } = world;
  link.isDeaf = dice.chance(0.5);
  clock.after(dice.between(0, 400), () => {
    link.isUp = false;
    later(world, 9_000, () => {
      link.isUp = true;
      link.isDeaf = false;
      check();
    });
  });
}

function replace(world: World, replica: Replica): void {
  if (!world.alive.delete(replica)) return;
  world.note(`${replica.name} is gone`);
  const tryToStart = (): void => {
    // Where it cannot be reached, or has yet to be told what it has lost, none is started: see play.ts.
    if (!world.weather.isUp || !isTold(world)) world.clock.after(100, tryToStart);
    else if (world.alive.size < world.plan.replicas) start(world);
  };
  later(world, 4_000, tryToStart);
}

/** From here on nothing goes wrong, and everybody wants as much as there is. */
export async function heal(world: World): Promise<void> {
  const { alive, weather, upstream, clock, note, plan } = world;
  // What was to be undone has been by then; who stood still while it was to stop is replaced later.
  await clock.advance(plan.pace.longestFaultMs + 500);
  for (let step = 0; step < 100 && alive.size < plan.replicas; step++) await clock.advance(STEP_MS);
  note("all is well");
  const longestMs = Math.max(...plan.terms.windows.map(({ windowMs }) => windowMs));
  const useMs = RECOVERY_MS + longestMs * (plan.pace.windowsOfUse + 3);
  const enough = Math.max(
    ...agreed(plan).map(({ limit, windowMs }) => Math.ceil((limit * useMs) / windowMs)),
  );
  Object.assign(weather, { slowestMs: 5, loss: 0, newsLoss: 0, isUp: true });
  Object.assign(upstream, { slowestMs: 10, loss: 0, slowDown: 0 });
  for (const replica of alive) {
    Object.assign(replica.link, { isUp: true, isDeaf: false });
    replica.check();
    replica.drop();
    for (const app of APPS) replica.want(callOf(app), enough);
  }
}
