/**
 * The options, the settings and the interface of a sandbox.
 */
import type { Listening } from "../process/listen.ts";
import type { Arrival, ArrivalCounts } from "./control/arrivals.ts";
import type { Caller } from "./auth.ts";
import type { Changes } from "./dataset/changes.ts";
import type { SandboxData } from "./dataset/model.ts";
import type { OffsetSpelling } from "./envelope.ts";
import type { FaultQueue } from "./control/faults.ts";

export const VALIDATORS = ["none", "etag", "last-modified", "both"] as const;

/** The validators of proper answers. With `none`, conditions are ignored, too. */
export type Validators = (typeof VALIDATORS)[number];

export interface SandboxOptions {
  /** The service's neutral name, as in `application/vnd.<service>-v2+json`. */
  readonly service: string;
  readonly callerId: string;
  readonly privateKey: string;
  /** The same seed and sizes give the same data. Default 1. */
  readonly seed?: number;
  /** The number of generated records. Default 12,000 listings and 24,000 sold. */
  readonly sizes?: { readonly listings: number; readonly sold: number };
  /** An existing data set, which tests share, instead of a new one. */
  readonly data?: SandboxData;
  /** Changes the data while the sandbox runs. Default: it changes with `revise` only. */
  readonly changes?: Changes;
  /** Epoch milliseconds. Default: the machine's clock. */
  readonly now?: () => number;
  /** How the envelope spells `offset`. Default `offset`. */
  readonly offsetSpelling?: OffsetSpelling;
}

/** Settings that can be changed while the sandbox runs. */
export interface SandboxSettings {
  readonly offsetSpelling?: OffsetSpelling;
  /** The validators of proper answers, which conditional requests are compared with. `none` at the start. */
  readonly validators?: Validators;
}

export interface Sandbox {
  readonly data: SandboxData;
  readonly faults: FaultQueue;
  /**
   * Opens a data port: interface and thumbnails. May be called again, for a second address.
   * @param port 0, the default: any free one
   * @param host default 127.0.0.1
   */
  readonly listen: (port?: number, host?: string) => Promise<Pick<Listening, "port" | "url">>;
  /** Opens the control port. */
  readonly listenControl: (port?: number, host?: string) => Promise<Pick<Listening, "port" | "url">>;
  /** Closes every port and every connection, including those of waiting requests. */
  readonly close: () => Promise<void>;
  /** The last 10,000 requests, oldest first. */
  readonly requests: () => Arrival[];
  readonly counts: () => ArrivalCounts;
  readonly clearRequests: () => void;
  /** Resolves when this many requests have arrived since the start or the last clearing. */
  readonly waitForRequests: (total: number) => Promise<void>;
  /** Makes requests wait from now on, after they were recorded; with a prefix, only those whose path starts with it. */
  readonly hold: (pathPrefix?: string) => void;
  /** Releases all waiting requests and stops holding; with a count, releases the first ones and keeps holding. */
  readonly release: (count?: number) => void;
  /** The number of waiting requests. */
  readonly waiting: () => number;
  /** Changes the key or the callerId. Requests signed with the old one get 403. */
  readonly setCaller: (change: Partial<Caller>) => void;
  readonly set: (settings: SandboxSettings) => void;
  /**
   * Changes the data behind every path that starts with the prefix (absent: all). Their answers then have other
   * content, other validators, and the current time as `Last-Modified`.
   */
  readonly revise: (change?: { readonly pathPrefix?: string | undefined }) => void;
  /** Restores the state at the start, except data and ports. Requests that hang or wait are aborted. */
  readonly reset: () => void;
  /** The answer of `GET /` on the control port. */
  readonly state: () => Readonly<Record<string, unknown>>;
}
