/** Interprets URLs of the callers' port, which operators ask about. */
import { z } from "zod";

import { Problem } from "../errors.ts";
import { parseRequest } from "../query/question.ts";
import type { Pages } from "../pages/pages.ts";
import type { ParseOptions } from "../query/parse.ts";
import type { Query } from "../query/query.ts";
import type { Route } from "../query/route.ts";
import { splitTarget } from "../query/wire.ts";
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

export interface Asked {
  readonly canonicalQuery: string;
  readonly key: string;
  readonly query: Query;
}

/** @throws {Problem} `invalid-query` if the URL has a mistake, `invalid-admin-request` if its answers are never cached */
export function askedFor(
  { url, format = "json" }: { url: string; format?: "json" | "v2" | undefined },
  { route, parse }: Understanding,
): Asked {
  const { path, search } = splitTarget(url);
  const to = route(path);
  if (to.kind === "unknown" || to.kind === "streamed") throw mistake("Answers at this URL are never cached.");
  const asked = parseRequest({ route: to, search, format: to.kind === "image" ? "jpeg" : format }, parse);
  if (asked.query.kind === "streamed") throw new Problem("internal-error");
  return { canonicalQuery: asked.canonicalQuery, key: asked.key, query: asked.query };
}
