import { playPart } from "./play.ts";

playPart(1, { parts: 2, histories: 3 });
