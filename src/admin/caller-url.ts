/** Interprets URLs of the callers' port, which operators ask about. */
import { z } from "zod";

import type { ParsedQuery } from "../query/known-targets.ts";
import { cacheableQuestionAt } from "../query/question.ts";
import type { Pages } from "../pages/pages.ts";
import type { ParseOptions } from "../query/parse.ts";
import type { Query } from "../query/query.ts";
import type { Route } from "../query/route.ts";
import { mistake } from "./endpoint.ts";

/** What is needed to interpret a URL. */
export interface Understanding {
  readonly route: (path: string) => Route;
  readonly parse: ParseOptions;
  /** Finds the blocks that an answer is cut from. */
  readonly pages: Pick<Pages, "sourceOf" | "blockKeysOf">;
}

/** The parameters of an endpoint about a URL. v2: the answer frozen to version 2, which is cached separately. */
export const ABOUT_URL = {
  url: z.string().min(1, "must not be empty"),
  format: z.enum(["json", "v2"]).optional(),
};

export type Asked = ParsedQuery<Query>;

/** @throws {Problem} `invalid-query` if the URL has a mistake, `invalid-admin-request` if its answers are never cached */
export function askedFor(
  { url, format = "json" }: { url: string; format?: "json" | "v2" | undefined },
  { route, parse }: Understanding,
): Asked {
  const found = cacheableQuestionAt(url, format, route, parse);
  if (found === undefined) throw mistake("Answers at this URL are never cached.");
  return found.asked;
}
