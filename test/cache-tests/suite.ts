/**
 * The public suite http-tests/cache-tests: the part of its form that is used here.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** A header field; a number as the value of a date field is seconds from now. */
export type Field = readonly [name: string, value: string | number, checked?: boolean];

type InterimResponse = readonly [status: number, headers?: readonly Field[]];

/** One request of a test, and what the origin does with it. */
export interface SuiteRequest {
  readonly request_method?: string;
  readonly request_headers?: readonly Field[];
  readonly magic_ims?: boolean;
  readonly query_arg?: string;
  readonly filename?: string;
  readonly pause_after?: boolean;
  readonly response_status?: readonly [number, string];
  readonly response_headers?: readonly Field[];
  readonly response_pause?: number;
  readonly rfc850date?: readonly string[];
  readonly disconnect?: boolean;
  readonly interim_responses?: readonly InterimResponse[];
  readonly expected_type?: "cached" | "not_cached" | "lm_validated" | "etag_validated";
  readonly expected_status?: number | null;
  readonly expected_method?: string;
  readonly expected_request_headers?: readonly (string | Field)[];
  readonly expected_request_headers_missing?: readonly (string | Field)[];
  readonly expected_response_headers?: readonly (
    | string
    | Field
    | readonly [string, string, string | number]
  )[];
  readonly expected_response_headers_missing?: readonly (string | Field)[];
}

export interface SuiteTest {
  readonly id: string;
  readonly name: string;
  /** `check`: the suite asks what a cache does, and no answer is wrong. */
  readonly kind?: "required" | "optimal" | "check";
  readonly browser_only?: boolean;
  readonly requests: readonly SuiteRequest[];
}

export interface SuiteGroup {
  readonly id: string;
  readonly name: string;
  readonly tests: readonly SuiteTest[];
}

/** All groups of the suite. @param directory a checkout of its repository */
export async function loadSuite(directory: string): Promise<readonly SuiteGroup[]> {
  const { href } = pathToFileURL(join(directory, "tests", "index.mjs"));
  const suite: { readonly default: readonly SuiteGroup[] } = await import(href);
  return suite.default;
}
