import { playScenes, playScenesWithRedis } from "./play.ts";

playScenes([1, 2, 3, 4], true);
playScenesWithRedis([7, 1, 2, 3, 4], "");
