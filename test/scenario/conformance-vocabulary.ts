/**
 * A case of docs/internals/http-cases.txt: what is asked, what the upstream does meanwhile, and
 * what the caller gets. conformance-play.ts plays them.
 */
import type { Effects } from "../../src/sandbox/faults.ts";
import type { SandboxSettings } from "../../src/sandbox/types.ts";

export interface Scenario {
  /** `<RFC>-<section>-<what>`; never changed. */
  readonly id: string;
  /** What has to be so. */
  readonly title: string;
  /** Over the default settings. */
  readonly settings?: Settings;
  readonly env?: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
}

export interface Settings {
  readonly [name: string]: Settings | readonly Settings[] | string | number | boolean;
}

export type Step =
  | Ask
  /** All ask while the upstream holds its answer to the first. */
  | { readonly together: readonly Ask[] }
  /** So many seconds go by. */
  | { readonly pass: number }
  | { readonly upstream: Upstream }
  /** The data of the upstream change. */
  | { readonly revise: true }
  /** An operator purges: the body of `POST /cache/purge`. */
  | { readonly purge: Readonly<Record<string, string | boolean>> }
  | Asked;

export interface Ask {
  readonly ask: string;
  readonly method?: string;
  /** The app that asks. */
  readonly app?: string;
  readonly with?: Readonly<Record<string, string | Copied>>;
  /** What the reply is called by later steps. */
  readonly as?: string;
  /** So many seconds go by between the upstream's receiving the request and its answer. */
  readonly upstreamTakes?: number;
  /** It is asked again and again until it is so: what happens after a response has no other sign. */
  readonly eventually?: true;
  readonly gets: Expected;
}

/** A header of an earlier reply. */
export interface Copied {
  readonly of: string;
  readonly header: string;
}

/** What a caller gets; what is not mentioned may be anything. */
export interface Expected {
  /** 200 where absent. */
  readonly status?: number;
  /** `Cache-Status` without the cache's name, the key and (unless mentioned here) the `fwd-status`. */
  readonly cache?: string;
  readonly age?: number;
  /** `Cache-Control: max-age` of so many seconds, and nothing else. */
  readonly maxAge?: number;
  /** The code of a problem. */
  readonly problem?: string;
  /** Others; null: there is none. */
  readonly headers?: Readonly<Record<string, string | Copied | null>>;
  readonly sameBodyAs?: string;
  readonly otherBodyThan?: string;
  /** What the body is without its gzip. */
  readonly decodesTo?: string;
}

/** How the upstream answers from now on; what is not mentioned is as at the start, but for the validators. */
export interface Upstream {
  readonly validators?: SandboxSettings["validators"];
  /** On good answers, also on 304s. */
  readonly headers?: Readonly<Record<string, string | FromNow>>;
  readonly fault?: Effects;
}

/** A time as HTTP writes it, counted from when the step is played. */
export interface FromNow {
  readonly secondsFromNow: number;
  /** In place of `GMT`. */
  readonly zone?: string;
}

/** How often the upstream was asked by now; waits for it. */
export interface Asked {
  readonly asked: number;
  /** Header fields the last of these requests had. */
  readonly has?: readonly string[];
  /** Header fields it had not. */
  readonly lacks?: readonly string[];
  /** What it was answered with. */
  readonly answeredWith?: number;
}
