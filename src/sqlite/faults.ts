/** Classifies the errors of SQLite by their extended result code. Its lowest byte is the primary code. */
const codeOf = (error: unknown): number => Number(Object(error)["errcode"]);
const isOneOf = (error: unknown, ...primary: number[]): boolean => primary.includes(codeOf(error) & 0xff);

/** IOERR_WRITE: among others, a disk quota is used up. */
const IOERR_WRITE = 778;

/** @returns whether an operation failed because there is no space on the disk (FULL) */
export const isDiskFull = (error: unknown): boolean => isOneOf(error, 13) || codeOf(error) === IOERR_WRITE;

/** @returns whether an operation failed because another process locks the file (BUSY, LOCKED) */
export const isInUse = (error: unknown): boolean => isOneOf(error, 5, 6);

/** @returns whether an operation failed because the file is damaged, or no database at all (CORRUPT, NOTADB) */
export const isDamaged = (error: unknown): boolean => isOneOf(error, 11, 26);
