const WIDTH = 30;

export interface Progress {
  readonly show: (done: number) => void;
  readonly end: () => void;
}

/** @returns a progress bar; it draws nothing where the stream is no terminal */
export function createProgress(
  stream: { readonly isTTY?: boolean; readonly write: (text: string) => unknown },
  total: number,
): Progress {
  if (stream.isTTY !== true) return { show: () => {}, end: () => {} };
  return {
    show(done) {
      const filled = total === 0 ? WIDTH : Math.round((done / total) * WIDTH);
      stream.write(`\r[${"#".repeat(filled)}${".".repeat(WIDTH - filled)}] ${done}/${total}`);
    },
    end: () => void stream.write("\n"),
  };
}
