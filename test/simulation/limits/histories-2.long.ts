import { playPart } from "./play.ts";

playPart(1, { parts: 2, histories: Number(process.env["HISTORIES"] ?? 20_000) });
