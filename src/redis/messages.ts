/**
 * Every message from one replica to the others, with its schema.
 *
 * Redis may lose messages, so a message only tells sooner what a replica would notice later. A message in another form is
 * ignored, so that replicas of two versions can run together.
 */
import { z } from "zod";

import { PROBLEM_CODES } from "../errors.ts";
import { ORIGINS, RESOURCES } from "../interface/resources.ts";

/** How a flight ended. An unknown end is `vacant`, so that waiting replicas claim the key again. */
const flightEnd = z
  .discriminatedUnion("kind", [
    z.object({ kind: z.literal("landed") }),
    z.object({ kind: z.literal("vacant") }),
    // Only the public parts of the problem, and whether the gateway itself refused.
    z.object({
      kind: z.literal("failed"),
      code: z.enum(PROBLEM_CODES),
      detail: z.string().optional(),
      retryAfterSeconds: z.number().optional(),
      refusedHere: z.boolean().optional(),
    }),
  ])
  .catch({ kind: "vacant" });

/** An open circuit in durations, because replicas have different clocks. */
const circuit = z.object({
  cause: z.enum(["too-many-requests", "unavailable", "failing", "unreachable", "credentials"]),
  failedProbes: z.number(),
  isAsked: z.boolean(),
  openForMs: z.number(),
  ageMs: z.number(),
  /** Time since the start of the probe that has not ended yet. */
  probingForMs: z.number().optional(),
});

const message = z.discriminatedUnion("kind", [
  /** An entry was stored: an older one under the key is out of date. */
  z.object({ kind: z.literal("stored"), key: z.string(), storedAt: z.number() }),
  /** The stream of purges has a new one (cache/store/redis.ts). */
  z.object({ kind: z.literal("purged") }),
  /** The holder of a claim has released it. */
  z.object({ kind: z.literal("flight-ended"), key: z.string(), holder: z.string(), end: flightEnd }),
  /** A circuit opened, was probed, or closed, which is without `circuit`. */
  z.object({
    kind: z.literal("circuit"),
    origin: z.enum(ORIGINS),
    scope: z.enum(["origin", ...RESOURCES]),
    circuit: circuit.optional(),
  }),
  /** The status page of a replica needs the texts of the others. */
  z.object({ kind: z.literal("status-wanted") }),
]);

export type Message = z.infer<typeof message>;
export type MessageOf<K extends Message["kind"]> = Extract<Message, { kind: K }>;

/** A message with the replica that sends it, and the namespace of its cache. */
export const envelopeSchema = z.object({ from: z.string(), cache: z.string(), message });
