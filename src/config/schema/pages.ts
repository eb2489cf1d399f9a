import * as z from "zod";

import { setting } from "./setting.ts";
import { oneOf } from "./number-shapes.ts";

/** How pages of a search are answered from larger blocks of its results. */
export const pages = z.strictObject({
  fold: setting(oneOf("on", "off"), {
    default: "on",
    env: "PAGES_FOLD",
    reloadable: true,
    description:
      "on: pages of a search are cut from blocks of 500 records. off: each page is fetched by itself.",
  }),
});
