/** Something that happens again and again. A waiter gets a signal that is raised the next time. */
export interface Signal {
  readonly next: () => AbortSignal;
  readonly raise: () => void;
}

export function createSignal(): Signal {
  let controller = new AbortController();
  return {
    next: () => controller.signal,
    raise() {
      const raised = controller;
      controller = new AbortController();
      // A reason of its own: the default is an error with a stack, made anew each time.
      raised.abort(null);
    },
  };
}
