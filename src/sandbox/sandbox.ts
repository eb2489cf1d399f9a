/** A stand-in for the upstream: the complete interface with generated data, and with faults on demand. */
import type { Server } from "node:http";

import { type Listening, listen as listenOn } from "../process/listen.ts";
import type { Source } from "./answer.ts";
import { ArrivalLog } from "./control/arrivals.ts";
import { createAuthenticator } from "./auth.ts";
import { Barrier } from "./control/barrier.ts";
import { createControlServer } from "./control/control.ts";
import { generateData } from "./dataset/generate.ts";
import { FaultQueue } from "./control/faults.ts";
import { createRevisions } from "./dataset/revisions.ts";
import { createDataServer } from "./server.ts";
import type { Sandbox, SandboxOptions } from "./types.ts";

export type { Sandbox, SandboxOptions } from "./types.ts";

const DEFAULT_SIZES = { listings: 12_000, sold: 24_000 } as const;

async function closePort(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeAllConnections();
  await promise;
}

/** Creates a sandbox. `listen` opens its ports. */
export function createSandbox(options: SandboxOptions): Sandbox {
  const now = options.now ?? Date.now;
  const { service, seed = 1, sizes = DEFAULT_SIZES } = options;
  const data = options.data ?? generateData({ seed, service, ...sizes });
  const authenticator = createAuthenticator(options);
  const revisions = createRevisions(now, options.changes);
  /** The settings at the start. They can be changed while the sandbox runs. */
  const first = { offsetSpelling: options.offsetSpelling ?? "offset", validators: "none" } as const;
  const source: Source = { data, service, authenticator, revisions, ...first };
  const [faults, barrier, arrivals] = [new FaultQueue(), new Barrier(), new ArrivalLog()];
  const parts = { source, faults, barrier, arrivals, now, unanswered: new Set<() => void>() };
  const servers = new Set<Server>();

  async function open(server: Server, port: number, host: string): Promise<Listening> {
    const listening = await listenOn(server, port, host);
    servers.add(server);
    return listening;
  }

  const sandbox: Sandbox = {
    data,
    faults,
    listen: (port = 0, host = "127.0.0.1") => open(createDataServer(parts), port, host),
    listenControl: (port = 0, host = "127.0.0.1") => open(createControlServer(sandbox), port, host),
    async close() {
      const open = [...servers];
      servers.clear();
      await Promise.all(open.map(closePort));
    },
    requests: () => arrivals.list(),
    counts: () => arrivals.counts(),
    clearRequests: () => arrivals.clear(),
    waitForRequests: (total) => arrivals.waitFor(total),
    hold: (pathPrefix) => barrier.hold(pathPrefix),
    release: (count) => barrier.release(count),
    waiting: () => barrier.waiting,
    setCaller: authenticator.setCaller,
    set: (settings) => void Object.assign(source, settings),
    revise: (change) => revisions.add(change?.pathPrefix),
    reset() {
      faults.clear();
      for (const breakOff of parts.unanswered) breakOff();
      barrier.release();
      arrivals.clear();
      authenticator.reset();
      revisions.clear();
      Object.assign(source, first);
    },
    state: () => ({
      service,
      callerId: authenticator.callerId,
      sizes: { listings: data.listings.length, sold: data.sold.length, areas: data.areas.length },
      offsetSpelling: source.offsetSpelling,
      validators: source.validators,
      revisions: revisions.list(),
      faults: faults.list(),
      holding: barrier.isHolding,
      waiting: barrier.waiting,
      arrivals: arrivals.counts(),
    }),
  };
  return sandbox;
}
