/** Classifies the errors of SQLite. */

/** FULL: the disk is full. IOERR_WRITE: among others, a disk quota is used up. */
const FULL = 13;
const IOERR_WRITE = 778;

/** @returns whether an operation failed because there is no space on the disk */
export function isDiskFull(error: unknown): boolean {
  return primaryCodeOf(error) === FULL || codeOf(error) === IOERR_WRITE;
}

/** BUSY and LOCKED. */
const IN_USE: ReadonlySet<unknown> = new Set([5, 6]);

/** @returns whether an operation failed because another process locks the file */
export function isInUse(error: unknown): boolean {
  return IN_USE.has(primaryCodeOf(error));
}

/** CORRUPT and NOTADB. */
const DAMAGED: ReadonlySet<unknown> = new Set([11, 26]);

/** @returns whether an operation failed because the file is damaged, or no database at all */
export function isDamaged(error: unknown): boolean {
  return DAMAGED.has(primaryCodeOf(error));
}

/** The lowest byte of an extended code is the primary code. */
function primaryCodeOf(error: unknown): number | undefined {
  const code = codeOf(error);
  return code === undefined ? undefined : code & 0xff;
}

/** @returns the extended result code of an error from SQLite */
function codeOf(error: unknown): number | undefined {
  const hasCode = error instanceof Error && "errcode" in error && typeof error.errcode === "number";
  return hasCode ? Number(error.errcode) : undefined;
}
