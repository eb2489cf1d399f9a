/** Dockerfiles and .dockerignore files, read as far as the project's own go: what is not understood is refused. */
import { matchesGlob } from "node:path";

export interface Instruction {
  /** In capitals, e.g. `COPY`. */
  readonly name: string;
  /** `--from=dependencies` as `from: "dependencies"`. */
  readonly flags: Readonly<Record<string, string>>;
  /** What follows the flags, on one line. */
  readonly text: string;
}

export function parseDockerfile(text: string) {
  const joined = text.replace(/^\s*#.*\n/gm, "").replace(/\\\n/g, " ");
  const instructions = joined
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(toInstruction);
  /** Arguments with their defaults, from before the first stage. */
  const globals: Record<string, string> = {};
  const stages: { base: string; name: string | undefined; instructions: Instruction[] }[] = [];
  for (const instruction of instructions) {
    const stage = stages.at(-1);
    if (instruction.name === "FROM") {
      const [, base = "", name] =
        /^(\S+)(?:\s+AS\s+(\S+))?$/.exec(substitute(instruction.text, globals)) ?? [];
      stages.push({ base, name, instructions: [] });
    } else if (stage) stage.instructions.push(instruction);
    else Object.assign(globals, assignments(instruction.text));
  }
  return { arguments: globals, stages };
}

function toInstruction(line: string): Instruction {
  const [, name = "", flags = "", text = ""] =
    /^\s*([A-Za-z]+)\s+((?:--[a-z-]+=\S+\s+)*)(.*?)\s*$/.exec(line) ?? [];
  return { name: name.toUpperCase(), flags: assignments(flags.replaceAll("--", "")), text };
}

/** `A=1 B="two words"` as an object. */
export function assignments(text: string): Record<string, string> {
  const pairs = [...text.matchAll(/([\w.-]+)=(?:"([^"]*)"|(\S*))/g)];
  return Object.fromEntries(pairs.map(([, name = "", quoted, plain = ""]) => [name, quoted ?? plain]));
}

/** Puts values in the place of `${NAME}`. */
export function substitute(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\$\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`\${${name}} is not set in the Dockerfile`);
    return value;
  });
}

/** A command in exec form: a JSON array. @throws where it is one for a shell, through which no signal comes */
export function execForm(text: string): string[] {
  if (!/^\[.*\]$/.test(text)) throw new Error(`not in exec form: ${text}`);
  const words: string[] = JSON.parse(text);
  return words;
}

/** @returns whether a path, relative to the context, is kept out of it. The last pattern that fits decides. */
export function ignoredBy(dockerignore: string): (path: string) => boolean {
  const patterns = dockerignore
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
  return (path) => {
    const parts = path.split("/");
    // A pattern that fits a directory fits all that is in it.
    const candidates = parts.map((_, index) => parts.slice(0, index + 1).join("/"));
    const last = patterns.findLast((pattern) => {
      const glob = pattern.replace(/^!/, "").replace(/^\/|\/$/g, "");
      // Node's `*` leaves out names that begin with a dot; Docker's does not.
      return candidates.some((candidate) => glob === "*" || matchesGlob(candidate, glob));
    });
    return last !== undefined && !last.startsWith("!");
  };
}
