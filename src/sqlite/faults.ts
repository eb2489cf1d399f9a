/** Classifies the errors of SQLite by their extended result code. Its lowest byte is the primary code. */
const codeOf = (error: unknown): number => Number(Object(error)["errcode"]);

const FULL = 13;
/** Among others, a disk quota is used up. */
const IOERR_WRITE = 778;

/** @returns whether an operation failed because there is no space on the disk */
export function isDiskFull(error: unknown): boolean {
  const code = codeOf(error);
  return (code & 0xff) === FULL || code === IOERR_WRITE;
}

/** BUSY and LOCKED. */
const IN_USE: ReadonlySet<number> = new Set([5, 6]);

/** @returns whether an operation failed because another process locks the file */
export function isInUse(error: unknown): boolean {
  return IN_USE.has(codeOf(error) & 0xff);
}

/** CORRUPT and NOTADB. */
const DAMAGED: ReadonlySet<number> = new Set([11, 26]);

/** @returns whether an operation failed because the file is damaged, or no database at all */
export function isDamaged(error: unknown): boolean {
  return DAMAGED.has(codeOf(error) & 0xff);
}
