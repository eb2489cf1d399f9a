/**
 * The image, put together without a container engine: the Dockerfile's own instructions are carried out in
 * directories, one a stage. Its commands then run from there, with its settings, its user and nothing else.
 */
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";

import { onTestFinished } from "vitest";

import {
  assignments,
  execForm,
  ignoredBy,
  type Instruction,
  parseDockerfile,
  type Stage,
  substitute,
} from "./dockerfile.ts";
import { runMark } from "./leftovers.ts";
import { follow, type Running } from "./process.ts";

export const IS_ROOT = process.getuid?.() === 0;

/** A process in a namespace of its own is process 1 there. Not every machine lets one make them. */
const NAMESPACE = ["unshare", ...(IS_ROOT ? [] : ["--map-current-user"]), "--pid", "--fork"];
export const HAS_NAMESPACES = spawnSync(NAMESPACE[0] ?? "", [...NAMESPACE.slice(1), "true"]).status === 0;

export interface Image {
  /** Stands for the image's `/`. */
  readonly root: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly ports: readonly number[];
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly healthCheck: {
    readonly flags: Readonly<Record<string, string>>;
    readonly command: readonly string[];
  };
  /** Runs a command as the image's user where that can be (as root), its own files read-only, as process 1. */
  readonly run: (command: readonly string[], env?: Readonly<Record<string, string>>) => Contained;
  readonly remove: () => void;
}

interface Contained extends Running {
  /** To the process itself, not to its parent. */
  readonly signal: (signal: NodeJS.Signals) => void;
}

/** What is there once the instructions so far are carried out. */
interface Built {
  readonly root: string;
  readonly args: Record<string, string>;
  readonly env: Record<string, string>;
  readonly labels: Record<string, string>;
  readonly ports: number[];
  workdir: string;
  user: string;
  entrypoint: readonly string[];
  command: readonly string[];
  healthCheck: Image["healthCheck"];
}

interface Context {
  /** By name. */
  readonly stages: Map<string, Built>;
  readonly buildArgs: Readonly<Record<string, string>>;
}

/** Carries the Dockerfile of the working directory out. @param buildArgs as with `--build-arg` */
export function buildImage(buildArgs: Readonly<Record<string, string>> = {}): Image {
  const parent = mkdtempSync(join(tmpdir(), "property-gateway-image-"));
  chmodSync(parent, 0o755);
  try {
    return buildBelow(parent, buildArgs);
  } catch (error) {
    rmSync(parent, { recursive: true });
    throw error;
  }
}

function buildBelow(parent: string, buildArgs: Context["buildArgs"]): Image {
  const context: Context = { stages: new Map(), buildArgs };
  let built: Built | undefined;
  for (const [index, stage] of parseDockerfile(readFileSync("Dockerfile", "utf8")).stages.entries()) {
    built = buildStage(stage, join(parent, String(index)), context);
    context.stages.set(stage.name ?? String(index), built);
  }
  if (!built) throw new Error("The Dockerfile has no stage.");
  const last = built;
  const { root } = last;
  // The parts of the base image that are used.
  mkdirSync(join(root, "usr/local/bin"), { recursive: true });
  cpSync(process.execPath, join(root, "usr/local/bin/node"));
  // Root's files are read-only for any other user as they are.
  if (!IS_ROOT) setMode(root, 0o555);
  return {
    ...last,
    run: (command, env = {}) => contain(last, command, env),
    remove() {
      if (!IS_ROOT) setMode(root, 0o755);
      rmSync(parent, { recursive: true });
    },
  };
}

function buildStage({ base, instructions }: Stage, root: string, context: Context): Built {
  if (!base.startsWith("node:")) throw new Error(`${base}: only the base image node is known here`);
  mkdirSync(root);
  const built: Built = {
    root,
    args: {},
    env: {},
    labels: {},
    ports: [],
    workdir: "/",
    user: "0:0",
    entrypoint: [],
    command: [],
    healthCheck: { flags: {}, command: [] },
  };
  for (const instruction of instructions) carryOut(instruction, built, context);
  return built;
}

function carryOut(instruction: Instruction, built: Built, context: Context): void {
  const { name, flags } = instruction;
  const text =
    name === "RUN" ? instruction.text : substitute(instruction.text, { ...built.args, ...built.env });
  if (name === "ARG") takeArguments(text, built, context.buildArgs);
  else if (name === "ENV") Object.assign(built.env, assignments(text));
  else if (name === "LABEL") Object.assign(built.labels, assignments(text));
  else if (name === "WORKDIR") {
    built.workdir = text;
    mkdirSync(join(built.root, text), { recursive: true });
  } else if (name === "COPY") copy(flags, text, built, context);
  else if (name === "RUN") runStep(text, built);
  else if (name === "USER") built.user = text;
  else if (name === "EXPOSE") built.ports.push(...text.split(/\s+/).map(Number));
  else if (name === "HEALTHCHECK") {
    built.healthCheck = { flags, command: execForm(text.replace(/^CMD\s+/, "")) };
  } else if (name === "ENTRYPOINT") built.entrypoint = execForm(text);
  else if (name === "CMD") built.command = execForm(text);
  else throw new Error(`${name} is not known here: teach it to test/support/image.ts`);
}

function takeArguments(text: string, { args }: Built, buildArgs: Context["buildArgs"]): void {
  for (const [name, value] of Object.entries(assignments(text))) args[name] = buildArgs[name] ?? value;
}

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

function copy(flags: Instruction["flags"], text: string, { root, workdir }: Built, context: Context): void {
  const paths = text.split(/\s+/);
  const target = paths.pop() ?? "";
  const destination = target.startsWith("/") ? join(root, target) : join(root, workdir, target);
  const from = flags["from"] === undefined ? undefined : context.stages.get(flags["from"]);
  if (flags["from"] !== undefined && !from) throw new Error(`COPY from ${flags["from"]}, which is no stage`);
  const isIgnored = ignoredBy(readFileSync(".dockerignore", "utf8"));
  for (const path of paths) {
    const source = from ? join(from.root, path) : path;
    if (!from && isIgnored(path)) throw new Error(`COPY ${path}, which .dockerignore keeps out`);
    const into = lstatSync(source).isDirectory() || !target.endsWith("/") ? "" : path;
    // What is a link in node_modules/.bin stays one.
    cpSync(source, join(destination, into), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (file) => from !== undefined || !isIgnored(relative(".", file)),
    });
  }
  const [uid, gid] = (flags["chown"] ?? "").split(":").map(Number);
  if (IS_ROOT && uid !== undefined && gid !== undefined) chownSync(destination, uid, gid);
}

/** The root and all directories of the code. Without write access to them, no file can be added or replaced. */
function setMode(root: string, mode: number): void {
  chmodSync(root, mode);
  for (const top of readdirSync(root).filter((name) => name !== "data")) {
    chmodSync(join(root, top), mode);
    for (const entry of readdirSync(join(root, top), { recursive: true, withFileTypes: true })) {
      if (entry.isDirectory()) chmodSync(join(entry.parentPath, entry.name), mode);
    }
  }
}

/** As `docker run` with a dropped user, `cap_drop: ALL`, `no-new-privileges` and no init. */
function contain(image: Built, command: readonly string[], env: Readonly<Record<string, string>>): Contained {
  const [uid = "", gid = ""] = image.user.split(":");
  const asUser = ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--bounding-set=-all"];
  const [program = "", ...args] = [
    ...(HAS_NAMESPACES ? NAMESPACE : []),
    ...(IS_ROOT ? [...asUser, "--no-new-privs"] : []),
    ...command.map((word, index) => (index === 0 ? join(image.root, "usr/local/bin", word) : word)),
  ];
  const child = spawn(program, args, {
    cwd: join(image.root, image.workdir),
    // The helpers come from this machine, the program by its full path from the image.
    env: { PATH: "/usr/bin:/bin:/usr/sbin", ...runMark(), ...placed(image.env, image.root), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const signal = (signal: NodeJS.Signals): void => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const inner = HAS_NAMESPACES ? childOf(child.pid) : child.pid;
    if (inner !== undefined) process.kill(inner, signal);
  };
  onTestFinished(() => signal("SIGKILL"));
  return { ...follow(child), signal };
}

function childOf(pid: number | undefined): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return children === "" ? undefined : Number(children.split(" ")[0]);
}

/** Directories of the image as they are found on this machine. */
function placed(env: Readonly<Record<string, string>>, root: string): Record<string, string> {
  const place = (value: string): string =>
    value.startsWith("/") && existsSync(join(root, value)) ? join(root, value) : value;
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, place(value)]));
}
