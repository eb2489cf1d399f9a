/** Collects what all processes know of one subject, such as their part of the status page. */
import { type Clock, pause } from "../../process/clock.ts";

/** Where replicas show texts to each other (src/redis/board.ts). */
export interface Board {
  readonly show: (write: () => string) => void;
  readonly look: () => Promise<readonly string[]>;
}

/** Whose numbers they are: of a gateway without replicas, of all replicas, or of this one because Redis does not answer. */
export type Scope = "alone" | "all" | "cut-off";

export interface PeersOptions<Part> {
  /** `undefined`: there are no other replicas. */
  readonly board: Board | undefined;
  readonly clock: Clock;
  /** The form of a part. Replicas of another version may write another form, and are left out. */
  readonly form: number;
  /** @returns what this process knows, as JSON values */
  readonly own: () => Part;
}

export interface Parts<Part> {
  readonly scope: Scope;
  /** That of this process comes first. */
  readonly all: readonly [Part, ...Part[]];
}

/** The other processes show their parts within this time. */
const PEERS_MS = 200;
/** After a look, the texts of the other processes are on the board for so long. */
const LOOKED_MS = 3_000;

/** @returns what collects the parts of all processes. It never rejects. */
export function createPeers<Part>(options: PeersOptions<Part>): () => Promise<Parts<Part>> {
  const { board, clock, form, own } = options;
  if (board === undefined) return async () => ({ scope: "alone", all: [own()] });
  let lookedAt = Number.NEGATIVE_INFINITY;
  // The instant makes each text differ from the one before.
  board.show(() => JSON.stringify({ form, at: clock.now(), part: own() }));

  function partIn(text: string): Part[] {
    const written: { form: number; part: Part } = JSON.parse(text);
    return written.form === form ? [written.part] : [];
  }

  return async () => {
    try {
      const isFirst = clock.monotonic() > lookedAt + LOOKED_MS;
      let texts = await board.look();
      if (isFirst) {
        await pause(clock, PEERS_MS);
        texts = await board.look();
      }
      lookedAt = clock.monotonic();
      return { scope: "all", all: [own(), ...texts.flatMap(partIn)] };
    } catch {
      return { scope: "cut-off", all: [own()] };
    }
  };
}
