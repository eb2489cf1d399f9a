import { playScenes, playScenesWithRedis } from "./play.ts";

playScenes([1, 2, 3, 4], true);
playScenes([1, 2, 3, 4], true, 40_000);
playScenesWithRedis([7, 1, 2, 3, 4], "");
