/** Which methods a path of the admin port takes. */
import type { RequestHandler } from "express";

import { Problem } from "../errors.ts";

/** The last handler of a path that is read. */
export const readOnly: RequestHandler = () => refuse("GET, HEAD", "Use GET or HEAD. This path is read-only.");

/** The last handler of a path by which something is done. */
export const postOnly: RequestHandler = () =>
  refuse("POST", "Use POST. This path changes something and has nothing to read.");

/** Names what the path takes (RFC 9110, section 15.5.6). */
function refuse(allow: string, remedy: string): never {
  throw new Problem("method-not-allowed", {
    detail: `This path takes ${allow.replace(",", " and")} only.`,
    remedy,
    headers: { Allow: allow },
  });
}
