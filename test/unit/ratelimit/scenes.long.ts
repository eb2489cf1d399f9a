import { playScenes } from "./scenes.ts";

playScenes(1, [1, 2, 3, 4], true);
playScenes(3, [7, 1, 2, 3, 4], true);
