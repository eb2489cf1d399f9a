import { playPart } from "./play.ts";

playPart(0, { parts: 2, histories: 3 });
