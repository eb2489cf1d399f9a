/**
 * The order in which waiting calls go. The priority comes first. Among equal priorities, calls whose time has come go first, the
 * longest overdue before the others. Then the part of its share that the app has used decides. Pure. docs/fairness.md explains
 * the rules.
 */
import { urgencyOf } from "../../telemetry/events.ts";
import type { AppCall } from "../call-facts.ts";
import type { Situation } from "./shares.ts";

/** The place of a call in the order. The first number that differs decides: the call with the smaller number goes first. */
export type Rank = readonly number[];

/** @param dueAt when the call should get its permit, as its caller was told. Monotonic milliseconds */
export function rankOf({ app, priority }: AppCall, dueAt: number, { now, turns }: Situation): Rank {
  const overdue = dueAt <= now ? dueAt : Number.POSITIVE_INFINITY;
  return [urgencyOf(priority), overdue, ...turns.usedParts(app)];
}

export function isBefore(rank: Rank, other: Rank): boolean {
  const index = rank.findIndex((value, at) => value !== other[at]);
  return index >= 0 && (rank[index] ?? 0) < (other[index] ?? 0);
}
