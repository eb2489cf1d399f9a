/** Plays the stories of stories/*.txt, which are in words. */
import { readdirSync, readFileSync } from "node:fs";

import { describe, it } from "vitest";

import { play, readStories } from "./play.ts";

const STORIES = new URL("stories/", import.meta.url);

describe.each(readdirSync(STORIES))("%s", (name) => {
  it.each(readStories(readFileSync(new URL(name, STORIES), "utf8")))("$title", play);
});
