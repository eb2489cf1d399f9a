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
  substitute,
} from "./dockerfile.ts";
import { runMark } from "./leftovers.ts";
import { follow, type Running } from "./process.ts";

/** Only root can become the image's user, and make a process the first one of a namespace, as in a container. */
export const IS_ROOT = process.getuid?.() === 0;
const NAMESPACE = ["unshare", "--pid", "--fork"];
export const HAS_NAMESPACES =
  IS_ROOT && spawnSync(NAMESPACE[0] ?? "", [...NAMESPACE.slice(1), "true"]).status === 0;

type Texts = Record<string, string>;

/** What is there once the instructions so far are carried out. */
interface Built {
  /** Stands for the image's `/`. */
  readonly root: string;
  readonly args: Texts;
  readonly env: Texts;
  readonly labels: Texts;
  workdir: string;
  user: string;
  ports: readonly number[];
  entrypoint: readonly string[];
  command: readonly string[];
  healthCheck: readonly string[];
}

export interface Image extends Readonly<Built> {
  /** Runs a command as the image's user and as process 1 where that can be (as root). */
  readonly run: (command: readonly string[], env?: Readonly<Texts>) => Contained;
  readonly remove: () => void;
}

interface Contained extends Running {
  /** To the process itself, not to its parent. */
  readonly signal: (signal: NodeJS.Signals) => void;
}

/** Carries the Dockerfile of the working directory out. @param buildArgs as with `--build-arg` */
export function buildImage(buildArgs: Readonly<Texts> = {}): Image {
  const parent = mkdtempSync(join(tmpdir(), "property-gateway-image-"));
  const remove = (): void => rmSync(parent, { recursive: true });
  chmodSync(parent, 0o755);
  try {
    const stages = new Map<string, Built>();
    for (const { name = "last", instructions } of parseDockerfile(readFileSync("Dockerfile", "utf8"))
      .stages) {
      const built = emptyAt(join(parent, name));
      for (const instruction of instructions) carryOut(instruction, built, stages, buildArgs);
      stages.set(name, built);
    }
    const last = stages.get("last") ?? emptyAt(join(parent, "last"));
    // The part of the base image that is used.
    mkdirSync(join(last.root, "usr/local/bin"), { recursive: true });
    cpSync(process.execPath, join(last.root, "usr/local/bin/node"));
    return { ...last, remove, run: (command, env = {}) => contain(last, command, env) };
  } catch (error) {
    remove();
    throw error;
  }
}

function emptyAt(root: string): Built {
  mkdirSync(root);
  const lists = { ports: [], entrypoint: [], command: [], healthCheck: [] };
  return { root, args: {}, env: {}, labels: {}, workdir: "/", user: "0:0", ...lists };
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
    WORKDIR: () => mkdirSync(join(built.root, (built.workdir = text)), { recursive: true }),
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

/** As `docker run` with a dropped user, `cap_drop: ALL`, `no-new-privileges` and no init. */
function contain(image: Built, command: readonly string[], env: Readonly<Texts>): Contained {
  const [uid = "", gid = ""] = image.user.split(":");
  const asUser = ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--bounding-set=-all"];
  const [program = "", ...args] = [
    ...(HAS_NAMESPACES ? NAMESPACE : []),
    ...(IS_ROOT ? [...asUser, "--no-new-privs"] : []),
    ...command.map((word, index) => (index === 0 ? join(image.root, "usr/local/bin", word) : word)),
  ];
  // Directories of the image as they are found on this machine.
  const place = (value: string): string =>
    value.startsWith("/") && existsSync(join(image.root, value)) ? join(image.root, value) : value;
  const own = Object.fromEntries(Object.entries(image.env).map(([name, value]) => [name, place(value)]));
  const child = spawn(program, args, {
    cwd: join(image.root, image.workdir),
    // The helpers come from this machine, the program by its full path from the image.
    env: { PATH: "/usr/bin:/bin:/usr/sbin", ...runMark(), ...own, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const signal = (signal: NodeJS.Signals): void => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const children = HAS_NAMESPACES && readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8");
    const [inner] = children === false ? [child.pid] : children.trim().split(" ").map(Number);
    if (inner) process.kill(inner, signal);
  };
  onTestFinished(() => signal("SIGKILL"));
  return { ...follow(child), signal };
}
