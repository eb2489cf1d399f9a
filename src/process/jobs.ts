/**
 * Runs expensive jobs, a few at a time and in order, so that a flood of them does not fill memory or block everything else.
 * Concurrent callers of the same job share it. A job that no caller wants any more when its turn comes is dropped.
 */
export interface Jobs<T> {
  /** Whether so many jobs wait that a caller should do without another one. `run` accepts it all the same. */
  readonly isFull: () => boolean;
  /**
   * @param key identifies the job
   * @param isWanted whether the caller still waits for the result
   * @returns the result; rejects with `JobDropped`, or with the error of the work. A failed job runs again when it is asked
   *   for again.
   */
  readonly run: (key: string, isWanted: () => boolean, work: () => Promise<T>) => Promise<T>;
}

/** No caller waits for the result any more, so no caller sees this error. */
class JobDropped extends Error {
  override readonly name = "JobDropped";
}

interface Job<T> extends PromiseWithResolvers<T> {
  readonly key: string;
  readonly callers: (() => boolean)[];
  readonly work: () => Promise<T>;
}

/** @param limits the most jobs that run at once, and the number of waiting jobs from which on the queue is full */
export function createJobs<T>({
  atOnce,
  waiting: mostWaiting,
}: {
  readonly atOnce: number;
  readonly waiting: number;
}): Jobs<T> {
  const jobs = new Map<string, Job<T>>();
  const queue = new Set<Job<T>>();
  let running = 0;

  function startNext(): void {
    for (const job of queue) {
      if (running >= atOnce) return;
      queue.delete(job);
      if (job.callers.some((isWanted) => isWanted())) void start(job);
      else {
        jobs.delete(job.key);
        job.reject(new JobDropped());
      }
    }
  }

  async function start({ key, work, resolve, reject }: Job<T>): Promise<void> {
    running++;
    const ended = (): void => {
      running--;
      jobs.delete(key);
      startNext();
    };
    await work().finally(ended).then(resolve, reject);
  }

  return {
    isFull: () => queue.size >= mostWaiting,
    run(key, isWanted, work) {
      const known = jobs.get(key);
      if (known !== undefined) {
        known.callers.push(isWanted);
        return known.promise;
      }
      const job: Job<T> = { key, work, callers: [isWanted], ...Promise.withResolvers<T>() };
      jobs.set(key, job);
      queue.add(job);
      startNext();
      return job.promise;
    },
  };
}
