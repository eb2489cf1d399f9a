/**
 * A gateway's process whose two ports get connections that break HTTP in every way: random bytes, resets at every stage,
 * half-closed sockets. Callers are served meanwhile.
 */
import net from "node:net";

import { expect } from "vitest";

import { type Replica, startFleet } from "./fleet.ts";
import { createRandom, type TestRandom } from "./random.ts";

/** Attacks both ports. Only refusals come back, every other caller is answered, and the process goes on. */
export async function expectToWithstand(forMs: number): Promise<void> {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
  const gateway = await (await startFleet()).start();
  let isOver = false;
  const attacks = [gateway.url, gateway.adminUrl].map((url) =>
    attackPort(Number(new URL(url).port), seed, forMs),
  );
  const answers = await Promise.all([
    Promise.all(attacks).finally(() => (isOver = true)),
    serve(gateway, () => isOver),
  ]).catch((error: unknown) => {
    throw new Error(`seed ${seed}: ${gateway.output()}`, { cause: error });
  });
  for (const status of answers[0].flatMap((some) => [...some]))
    expect([seed, status]).toEqual([seed, expect.stringMatching(/^(HTTP\/1\.1 4\d\d |$)/)]);
}

async function serve({ get, admin }: Replica, isOver: () => boolean): Promise<void> {
  do {
    expect((await get("/areas?q=Nacka")).status).toBe(200);
    expect((await admin("/livez")).status).toBe(200);
  } while (!isOver());
}

const HEAD = "GET /areas?limit=x HTTP/1.1\r\nHost: localhost\r\n";

/** What a connection sends: never a request that gets a 200. */
const TEXTS: readonly ((random: TestRandom) => string)[] = [
  () => "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
  () => "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\nmore bytes for the tunnel",
  () => `${HEAD}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  () => "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003",
  () => `${HEAD}\r\n`,
  () => `${HEAD}\r\n`.repeat(30),
  () => `${HEAD}\r\nCONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n`,
  () => `${HEAD}\r\nnonsense\r\n\r\n`,
  () => `${HEAD}Content-Length: 100\r\n\r\nless`,
  () => `${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nab`,
  () => `${HEAD}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
  (random) => HEAD.slice(0, random.between(0, HEAD.length)),
  spoiled,
  (random) =>
    String.fromCharCode(...Array.from({ length: random.between(1, 400) }, () => random.between(0, 255))),
];

/** A request with a wrong value, and with some bytes changed elsewhere. */
function spoiled(random: TestRandom): string {
  const bytes = Buffer.from(`${HEAD}Accept: */*\r\nConnection: close\r\n\r\n`, "latin1");
  for (let spoils = random.between(1, 3); spoils > 0; spoils--) {
    const odd = random.pick([0, 1, 9, 10, 13, 32, 34, 58, 92, 127, 128, 195, 255]);
    bytes[random.pick([random.between(0, 5), random.between(20, bytes.length - 1)])] = odd;
  }
  return bytes.toString("latin1");
}

const ENDS = ["reset", "half-close", "close", "wait"] as const;

/** @returns the first bytes of each answer, without repetition: a status line or nothing */
async function attackPort(port: number, seed: number, forMs: number): Promise<ReadonlySet<string>> {
  const random = createRandom(seed);
  const answers = new Set<string>();
  const endsAt = performance.now() + forMs;
  const attacker = async (): Promise<void> => {
    while (performance.now() < endsAt) answers.add(await attackOnce(port, random));
  };
  await Promise.all(Array.from({ length: 40 }, attacker));
  return answers;
}

/** The longest time that a connection waits for an answer. */
const WAIT_MS = 200;

function attackOnce(port: number, random: TestRandom): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const text = random.pick(TEXTS)(random);
  const end = random.pick(ENDS);
  const cutAt = random.chance(0.3) ? random.between(0, text.length) : text.length;
  const endsAfterMs = random.pick([0, 0, 1, 5, 30]);
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  let said = "";
  socket.on("error", () => undefined);
  socket.on("data", (piece: Buffer) => (said += said === "" ? piece.toString("latin1") : ""));
  socket.on("end", () => socket.end());
  socket.on("connect", () => {
    socket.write(Buffer.from(text.slice(0, cutAt), "latin1"));
    setTimeout(() => {
      if (end === "reset") socket.resetAndDestroy();
      else if (end === "half-close") socket.end(Buffer.from(text.slice(cutAt), "latin1"));
      else if (end === "close") socket.destroy();
    }, endsAfterMs);
  });
  const done = (): void => {
    clearTimeout(timer);
    resolve(/^[^\r]*/.exec(said)?.[0] ?? "");
  };
  // Node emits no `close` if a reset meets a connection that is just being ended.
  const timer = setTimeout(() => {
    socket.destroy();
    done();
  }, WAIT_MS);
  socket.on("close", done);
  return promise;
}
