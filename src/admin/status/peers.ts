/** Collects the parts of all processes for one subject, such as the status page. */
import { type Clock, pause } from "../../process/clock.ts";

/** Each replica publishes a text here, which the others read (src/redis/board.ts). */
export interface Board {
  readonly show: (write: () => string) => void;
  readonly look: () => Promise<readonly string[]>;
}

/**
 * Where the numbers come from. `alone`: the only process, as there is no Redis. `all`: all replicas. `cut-off`: this replica
 * only, because Redis does not answer.
 */
export type Scope = "alone" | "all" | "cut-off";

export interface PeersOptions<Part> {
  /** `undefined`: there are no other replicas. */
  readonly board: Board | undefined;
  readonly clock: Clock;
  /** The version of a part's format. Parts in another format, which come from another release, are ignored. */
  readonly form: number;
  /** @returns what this process knows, as JSON values */
  readonly own: () => Part;
}

export interface Parts<Part> {
  readonly scope: Scope;
  /** The first one is the part of this process. */
  readonly all: readonly [Part, ...Part[]];
}

/** The other processes publish their parts within this time. */
const PEERS_MS = 200;
/** For this long after a look, the next look finds the texts of the other processes on the board. */
const LOOKED_MS = 3_000;

/** @returns a function that collects the parts of all processes. It never rejects. */
export function createPeers<Part>(options: PeersOptions<Part>): () => Promise<Parts<Part>> {
  const { board, clock, form, own } = options;
  if (board === undefined) return async () => ({ scope: "alone", all: [own()] });
  let lookedAt = Number.NEGATIVE_INFINITY;
  // The board takes a text that does not change for the text of a dead process. The instant changes it.
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
