/**
 * The log on standard output: JSON lines, or lines for people on a terminal. It contains events, which `log.level`
 * selects, and the access log (access-log.ts).
 *
 * Two rules keep secrets out of the log. Records have known fields, such as canonical queries and problem codes, and never
 * contain a raw URL. And signatures and known secrets are redacted before a line is written.
 */
import { pino, type DestinationStream } from "pino";

export type Logger = ReturnType<typeof createLogger>;

export interface LogOptions {
  readonly level: string;
  /** Receives each line at once. The default is standard output. */
  readonly destination?: DestinationStream;
  /** Texts that must never be written. The list may grow. */
  readonly secrets: readonly string[];
}

// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createLogger({ level, destination = standardOutput(), secrets }: LogOptions) {
  const redact = createRedact(secrets);
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { streamWrite: redact },
  };
  /**
   * Writes a line with the level info, whatever `log.level` is. It is for the access log: pino encodes each field by itself,
   * which takes three times as long.
   */
  const line = (fields: object): void => {
    const text = JSON.stringify(fields).slice(1);
    destination.write(redact(`{"level":"info","time":"${new Date().toISOString()}",${text}\n`));
  };
  return Object.assign(pino(options, destination), { line });
}

/** Lines wait this long for others, so that many are written together. A process that is killed loses them. */
const FLUSH_EVERY_MS = 50;
/** This many waiting bytes are written at once. */
const WRITE_FROM = 250_000;
/** If the reader of the log is slow and so many bytes wait, further lines are lost. The gateway does not wait. */
const MOST_WAITING = 16 * 1024 * 1024;

/** On a terminal, lines are formatted for people. */
function standardOutput(): DestinationStream {
  if (!process.stdout.isTTY) {
    const output = pino.destination({
      dest: process.stdout.fd,
      sync: false,
      periodicFlush: FLUSH_EVERY_MS,
      minLength: WRITE_FROM,
      maxWrite: 2 * WRITE_FROM,
      maxLength: MOST_WAITING,
      // With texts, it would count the bytes of all waiting lines at each new line.
      contentMode: "buffer",
    });
    // pino ignores that nothing reads the log any more. A process without a log must end.
    output.on("error", (error: Error) => {
      throw error;
    });
    // pino's types know texts only.
    const bytes: { write(line: unknown): boolean } = output;
    const write = bytes.write.bind(output);
    return Object.assign(output, {
      write: (line: string) => write(Buffer.from(line)),
      // pino calls this at fatal errors and at the end of the process. Its own version waits for ever if nothing reads the pipe.
      flushSync: () => undefined,
    });
  }
  const options = { translateTime: "HH:MM:ss.l", singleLine: true, ignore: "pid,hostname" };
  return pino.transport({ target: "pino-pretty", options });
}

const SIGNATURE = /(?<=hash|unique)(=|%3D)[^&\s"\\]*/gi;

/**
 * @param secrets texts that must never be written. The list may grow.
 * @returns a function that redacts signatures and the secrets, also where JSON or a URL escapes them
 */
export function createRedact(secrets: readonly string[]): (text: string) => string {
  const unwanted: string[] = [];
  let spelled = 0;
  return (text) => {
    for (; spelled < secrets.length; spelled++) unwanted.push(...spellingsOf(secrets[spelled] ?? ""));
    let clean = text.replaceAll(SIGNATURE, ":[redacted]");
    for (const secret of unwanted) clean = clean.replaceAll(secret, "[redacted]");
    return clean;
  };
}

/** @returns the text as it is and as it is escaped in a URL, each escaped for JSON */
function spellingsOf(secret: string): string[] {
  if (secret === "") return [];
  const form = new URLSearchParams([["", secret]]).toString().slice(1);
  const spellings = [secret, encodeURIComponent(secret), form];
  return [...new Set(spellings.map((spelling) => JSON.stringify(spelling).slice(1, -1)))];
}
