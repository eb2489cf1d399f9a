/** No caller waits for the result any more, so no caller sees this error. */
class JobDropped extends Error {
  override readonly name = "JobDropped";
}

interface Job<T> extends PromiseWithResolvers<T> {
  readonly callers: (() => boolean)[];
  readonly work: () => Promise<T>;
  isRunning: boolean;
}

/**
 * Runs expensive jobs, a few at a time and in order, so that a flood of them does not fill memory or block everything else.
 * Concurrent callers of the same job share it. A job that no caller wants any more when its turn comes is dropped.
 * @param atOnce the most jobs that run at once
 */
// oxlint-disable-next-line typescript/explicit-function-return-type, typescript/explicit-module-boundary-types
export function createJobs<T>(atOnce: number) {
  /** The jobs that run or wait, by key, the oldest first. */
  const jobs = new Map<string, Job<T>>();
  let running = 0;

  function startNext(): void {
    for (const [key, job] of jobs) {
      if (running >= atOnce) return;
      if (job.isRunning) continue;
      if (job.callers.some((isWanted) => isWanted())) start(key, job);
      else {
        jobs.delete(key);
        job.reject(new JobDropped());
      }
    }
  }

  function start(key: string, job: Job<T>): void {
    job.isRunning = true;
    running++;
    const end = (): void => {
      running--;
      jobs.delete(key);
      startNext();
    };
    job.work().finally(end).then(job.resolve, job.reject);
  }

  return {
    /** The number of jobs that wait for their turn. */
    waiting: (): number => jobs.size - running,
    /**
     * @param key identifies the job
     * @param isWanted whether the caller still waits for the result
     * @returns the result; rejects with `JobDropped`, or with the error of the work. A failed job runs again when it is asked
     *   for again.
     */
    run: async (key: string, isWanted: () => boolean, work: () => Promise<T>): Promise<T> => {
      const job = jobs.get(key) ?? { callers: [], work, isRunning: false, ...Promise.withResolvers<T>() };
      job.callers.push(isWanted);
      jobs.set(key, job);
      startNext();
      return await job.promise;
    },
  };
}
