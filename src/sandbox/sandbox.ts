/** A stand-in for the upstream: the complete interface with generated data, and with faults on demand. */
import type { Server } from "node:http";

import { listen as listenOn } from "../process/listen.ts";
import type { Source } from "./answer.ts";
import { createArrivalLog } from "./control/arrivals.ts";
import { createAuthenticator } from "./auth.ts";
import { createBarrier } from "./control/barrier.ts";
import { createControlServer } from "./control/control.ts";
import { generateData } from "./dataset/generate.ts";
import { createFaultQueue } from "./control/faults.ts";
import { createRevisions } from "./dataset/revisions.ts";
import { createDataServer } from "./server.ts";
import type { Listening, Sandbox, SandboxOptions } from "./types.ts";

export type { Sandbox, SandboxOptions } from "./types.ts";

const DEFAULT_SIZES = { listings: 12_000, sold: 24_000 } as const;

async function closePort(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeAllConnections();
  await promise;
}

/** The sandbox apart from its ports. */
type Core = Omit<Sandbox, "listen" | "listenControl" | "close">;

/** The settings at the start. They can be changed while the sandbox runs. */
function startOf({
  offsetSpelling = "offset",
}: SandboxOptions): Pick<Source, "offsetSpelling" | "validators"> {
  return { offsetSpelling, validators: "none" };
}

function createCore(options: SandboxOptions): { core: Core; dataServer: () => Server } {
  const now = options.now ?? Date.now;
  const { service, seed = 1, sizes = DEFAULT_SIZES } = options;
  const authenticator = createAuthenticator(options);
  const source: Source = {
    data: options.data ?? generateData({ seed, service, ...sizes }),
    service,
    authenticator,
    revisions: createRevisions(now, options.changes),
    ...startOf(options),
  };
  const [faults, barrier, arrivals] = [createFaultQueue(), createBarrier(), createArrivalLog()];
  const { data, revisions } = source;
  const parts = { source, faults, barrier, arrivals, now, unanswered: new Set<() => void>() };
  const core: Core = {
    data,
    faults,
    requests: arrivals.list,
    counts: arrivals.counts,
    clearRequests: arrivals.clear,
    waitForRequests: arrivals.waitFor,
    hold: barrier.hold,
    release: barrier.release,
    waiting: barrier.waiting,
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
      Object.assign(source, startOf(options));
    },
    state: () => ({
      service,
      callerId: authenticator.callerId,
      sizes: { listings: data.listings.length, sold: data.sold.length, areas: data.areas.length },
      offsetSpelling: source.offsetSpelling,
      validators: source.validators,
      revisions: revisions.list(),
      faults: faults.list(),
      holding: barrier.isHolding(),
      waiting: barrier.waiting(),
      arrivals: arrivals.counts(),
    }),
  };
  return { core, dataServer: () => createDataServer(parts) };
}

/** Creates a sandbox. `listen` opens its ports. */
export function createSandbox(options: SandboxOptions): Sandbox {
  const { core, dataServer } = createCore(options);
  const servers = new Set<Server>();

  async function open(server: Server, port: number, host: string): Promise<Listening> {
    const listening = await listenOn(server, port, host);
    servers.add(server);
    return listening;
  }

  const sandbox: Sandbox = {
    ...core,
    listen: (port = 0, host = "127.0.0.1") => open(dataServer(), port, host),
    listenControl: (port = 0, host = "127.0.0.1") => open(createControlServer(sandbox), port, host),
    async close() {
      const open = [...servers];
      servers.clear();
      await Promise.all(open.map(closePort));
    },
  };
  return sandbox;
}
