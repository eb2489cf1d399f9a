import * as z from "zod";

import { setting } from "../setting.ts";
import { oneOf } from "../shapes.ts";

/** How pages of a search are answered from larger blocks of its results. */
export const pages = z.strictObject({
  fold: setting(oneOf("on", "off"), {
    default: "on",
    env: "PAGES_FOLD",
    reloadable: true,
    description:
      "Whether the gateway fetches large blocks of a search and answers pages from them. off: it fetches each page by " +
      "itself.",
  }),
});
