/**
 * The image, put together without a container engine: the Dockerfile's own instructions are carried out in
 * directories, one a stage. Its commands then run from there, with its settings, its user and nothing else.
 */
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";

import { onTestFinished } from "vitest";

import { runMark } from "./leftovers.ts";
import { follow } from "./process.ts";

/** Only root can become the image's user, and make a process the first one of a namespace, as in a container. */
export const IS_ROOT = process.getuid?.() === 0;
const NAMESPACE = ["unshare", "--pid", "--fork"];
export const HAS_NAMESPACES =
  IS_ROOT && spawnSync(NAMESPACE[0] ?? "", [...NAMESPACE.slice(1), "true"]).status === 0;

type Texts = Record<string, string>;

/** What is there once the instructions so far are carried out. */
type Built = ReturnType<typeof emptyAt>;
export type Image = ReturnType<typeof buildImage>;

/** Carries the Dockerfile of the working directory out. @param buildArgs as with `--build-arg` */
export function buildImage(buildArgs: Readonly<Texts> = {}) {
  const parent = fs.mkdtempSync(join(tmpdir(), "property-gateway-image-"));
  const remove = (): void => fs.rmSync(parent, { recursive: true });
  fs.chmodSync(parent, 0o755);
  try {
    const stages = new Map<string, Built>();
    for (const { name = "last", instructions } of parseDockerfile(fs.readFileSync("Dockerfile", "utf8"))
      .stages) {
      const built = emptyAt(join(parent, name));
      for (const instruction of instructions) carryOut(instruction, built, stages, buildArgs);
      stages.set(name, built);
    }
    const last = stages.get("last") ?? emptyAt(join(parent, "last"));
    // The part of the base image that is used.
    fs.mkdirSync(join(last.root, "usr/local/bin"), { recursive: true });
    fs.cpSync(process.execPath, join(last.root, "usr/local/bin/node"));
    return {
      ...last,
      remove,
      /** Runs a command as the image's user and as process 1 where that can be (as root). */
      run: (command: readonly string[], env: Readonly<Texts> = {}) => contain(last, command, env),
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** @param root stands for the image's `/` */
function emptyAt(root: string) {
  fs.mkdirSync(root);
  const [args, env, labels]: [Texts, Texts, Texts] = [{}, {}, {}];
  const [entrypoint, command, healthCheck]: [string[], string[], string[]] = [[], [], []];
  const ports: number[] = [];
  return { root, args, env, labels, workdir: "/", user: "0:0", ports, entrypoint, command, healthCheck };
}

function carryOut(
  { name, flags, text: written }: Instruction,
  built: Built,
  stages: ReadonlyMap<string, Built>,
  buildArgs: Readonly<Texts>,
): void {
  const text = name === "RUN" ? written : substitute(written, { ...built.args, ...built.env });
  const steps: Readonly<Record<string, () => unknown>> = {
    ARG: () => Object.assign(built.args, assignments(text), pick(buildArgs, Object.keys(assignments(text)))),
    ENV: () => Object.assign(built.env, assignments(text)),
    LABEL: () => Object.assign(built.labels, assignments(text)),
    WORKDIR: () => fs.mkdirSync(join(built.root, (built.workdir = text)), { recursive: true }),
    COPY: () => copy(flags, text, built, stages),
    RUN: () => runStep(text, built),
    USER: () => (built.user = text),
    EXPOSE: () => (built.ports = text.split(/\s+/).map(Number)),
    HEALTHCHECK: () => (built.healthCheck = execForm(text.replace(/^CMD\s+/, ""))),
    ENTRYPOINT: () => (built.entrypoint = execForm(text)),
    CMD: () => (built.command = execForm(text)),
  };
  const step = steps[name];
  if (step === undefined) throw new Error(`${name} is not known here: teach it to test/support/image.ts`);
  step();
}

const pick = (values: Readonly<Texts>, names: readonly string[]): Texts =>
  Object.fromEntries(Object.entries(values).filter(([name]) => names.includes(name)));

function runStep(script: string, { root, workdir, env, args }: Built): void {
  if (/(^|[\s=])\//.test(script))
    throw new Error(`a path of the image in \`${script}\` would be one of this machine`);
  const PATH = `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`;
  const { status, stdout, stderr } = spawnSync("sh", ["-c", script], {
    cwd: join(root, workdir),
    env: { ...process.env, PATH, ...args, ...env },
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`\`${script}\` ended with ${status}:\n${stdout}${stderr}`);
}

function copy(
  flags: Instruction["flags"],
  text: string,
  { root, workdir }: Built,
  stages: ReadonlyMap<string, Built>,
): void {
  const paths = text.split(/\s+/);
  const target = paths.pop() ?? "";
  const destination = target.startsWith("/") ? join(root, target) : join(root, workdir, target);
  const from = flags["from"] === undefined ? undefined : stages.get(flags["from"]);
  if (flags["from"] !== undefined && !from) throw new Error(`COPY from ${flags["from"]}, which is no stage`);
  const isIgnored = ignoredBy(fs.readFileSync(".dockerignore", "utf8"));
  for (const path of paths) {
    const source = from ? join(from.root, path) : path;
    if (!from && isIgnored(path)) throw new Error(`COPY ${path}, which .dockerignore keeps out`);
    const into = fs.lstatSync(source).isDirectory() || !target.endsWith("/") ? "" : path;
    // What is a link in node_modules/.bin stays one.
    fs.cpSync(source, join(destination, into), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (file) => from !== undefined || !isIgnored(relative(".", file)),
    });
  }
  const [uid, gid] = (flags["chown"] ?? "").split(":").map(Number);
  if (IS_ROOT && uid !== undefined && gid !== undefined) fs.chownSync(destination, uid, gid);
}

/** As `docker run` with a dropped user, `cap_drop: ALL`, `no-new-privileges` and no init. */
function contain(image: Built, command: readonly string[], env: Readonly<Texts>) {
  const [uid = "", gid = ""] = image.user.split(":");
  const asUser = ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--bounding-set=-all"];
  const [program = "", ...args] = [
    ...(HAS_NAMESPACES ? NAMESPACE : []),
    ...(IS_ROOT ? [...asUser, "--no-new-privs"] : []),
    ...command.map((word, index) => (index === 0 ? join(image.root, "usr/local/bin", word) : word)),
  ];
  // Directories of the image as they are found on this machine.
  const place = (value: string): string =>
    value.startsWith("/") && fs.existsSync(join(image.root, value)) ? join(image.root, value) : value;
  const own = Object.fromEntries(Object.entries(image.env).map(([name, value]) => [name, place(value)]));
  const child = spawn(program, args, {
    cwd: join(image.root, image.workdir),
    // The helpers come from this machine, the program by its full path from the image.
    env: { PATH: "/usr/bin:/bin:/usr/sbin", ...runMark(), ...own, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const signal = (signal: NodeJS.Signals): void => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const children =
      HAS_NAMESPACES && fs.readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8");
    const [inner] = children === false ? [child.pid] : children.trim().split(" ").map(Number);
    if (inner) process.kill(inner, signal);
  };
  onTestFinished(() => signal("SIGKILL"));
  /** `signal`: to the process itself, not to its parent. */
  return { ...follow(child), signal };
}

interface Instruction {
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
function assignments(text: string): Record<string, string> {
  const pairs = [...text.matchAll(/([\w.-]+)=(?:"([^"]*)"|(\S*))/g)];
  return Object.fromEntries(pairs.map(([, name = "", quoted, plain = ""]) => [name, quoted ?? plain]));
}

/** Puts values in the place of `${NAME}`. */
function substitute(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\$\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`\${${name}} is not set in the Dockerfile`);
    return value;
  });
}

/** A command in exec form: a JSON array. @throws for a command in shell form, because a shell does not pass signals on */
function execForm(text: string): string[] {
  if (!/^\[.*\]$/.test(text)) throw new Error(`not in exec form: ${text}`);
  const words: string[] = JSON.parse(text);
  return words;
}

/** @returns whether a path, relative to the context, is left out of it. The last pattern that matches decides. */
export function ignoredBy(dockerignore: string): (path: string) => boolean {
  const patterns = dockerignore.split("\n").filter((line) => /^[^#\s]/.test(line));
  if (patterns.some((pattern) => /.\*|[?[]/.test(pattern))) throw new Error("a glob is not known here");
  return (path) => {
    const last = patterns.findLast((pattern) => {
      const name = pattern.replace("!", "");
      // A pattern that matches a directory matches everything in it.
      return name === "*" || `${path}/`.startsWith(`${name}/`);
    });
    return last !== undefined && !last.startsWith("!");
  };
}
