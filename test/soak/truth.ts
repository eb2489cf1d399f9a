/** What the upstream would send in each state of its data. */
import { answer, type Source } from "../../src/sandbox/answer.ts";
import { createAuthenticator } from "../../src/sandbox/auth.ts";
import { createRevisions } from "../../src/sandbox/dataset/revisions.ts";
import { generateData } from "../../src/sandbox/dataset/generate.ts";
import { CALLER } from "../support/gateway.ts";

export const SIZES = { listings: 3_000, sold: 3_000 } as const;
export const DATA = generateData({ seed: 1, ...SIZES, service: CALLER.service });

/** A change of the data behind all paths with a prefix. It took effect between the two instants. */
interface Change {
  readonly pathPrefix: string;
  readonly revision: number;
  readonly beganAt: number;
  readonly endedAt: number;
}

export type Truth = ReturnType<typeof createTruth>;

export function createTruth() {
  const changes: Change[] = [];
  let revision = 0;

  /** Revisions that a path may have had between two instants, newest first. */
  function revisionsOf(path: string, from: number, to: number): number[] {
    const own = changes.filter(({ pathPrefix }) => path.startsWith(pathPrefix));
    const states = [{ revision: 0, beganAt: Number.NEGATIVE_INFINITY }, ...own];
    return states
      .filter(({ beganAt }, index) => beganAt <= to && (own[index]?.endedAt ?? Infinity) >= from)
      .map(({ revision }) => revision)
      .toReversed();
  }

  return {
    /** Runs what changes the data, and notes when. */
    async change(pathPrefix: string, act: () => Promise<unknown>): Promise<void> {
      revision += 1;
      const change = { pathPrefix, revision, beganAt: Date.now(), endedAt: Number.POSITIVE_INFINITY };
      changes.push(change);
      await act();
      change.endedAt = Date.now();
    },
    /** Whether the upstream sends this body for a target in a state that it had between two instants. */
    isSent: (target: string, body: Buffer, from: number, to: number) =>
      revisionsOf(target.split("?")[0] ?? "", from, to).some((revision) =>
        sentFor(target, revision).body.equals(body),
      ),
    /** The status of the upstream's answer: it is the same in every state. */
    statusOf: (target: string) => sentFor(target, 0).status,
  };
}

function sentFor(target: string, revision: number): ReturnType<typeof answer> {
  const [path = "", query = ""] = target.split("?");
  const source: Source = {
    data: DATA,
    service: CALLER.service,
    authenticator: { ...createAuthenticator(CALLER), refusal: () => undefined },
    revisions: { ...createRevisions(Date.now), of: () => ({ revision, changedAt: 0 }) },
    offsetSpelling: "offset",
    validators: "none",
  };
  return answer(
    { method: "GET", path, params: new URLSearchParams(query), accept: "application/json", nowSeconds: 0 },
    source,
  );
}
