import { playScenes } from "./scenes.ts";

playScenes(1, [7]);
